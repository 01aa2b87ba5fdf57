//! Decides where and how each resource is stored: back end, key prefix, codec and transformer. Like
//! Kubernetes' storage factory, it is the only place that decides this.
//!
//! From the configuration ([`options`]) and the table of resources it makes a [`StoragePlan`] for
//! each stored resource. All versions of a resource, and groups that share its keys, are one stored
//! resource with one cache. It must not know HTTP or strategies. Everything except
//! [`StorageFactory::plans`] works without engines, so that `taffrail storage table` can print the
//! result. [`decision`], [`versions`] and [`destination`] decide, [`checks`] and [`warnings`] find
//! mistakes in the configuration.

mod back_ends;
mod checks;
mod decision;
mod destination;
mod error;
pub mod options;
mod plan;
#[cfg(test)]
mod tests;
mod versions;
mod warnings;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

pub use back_ends::{BASE, BackEnd, Engines};
pub use destination::Destination;
pub use error::FactoryError;
pub use options::{DEFAULT_ROOT, GroupResource, GroupVersion, StorageOptions};
pub use plan::StoragePlan;

use super::StoredResource;
use super::codec::{Codec, MediaType, StoredForm, TypeName};
use super::transformer::TransformerSource;
use super::underlying::StoredDecoder;
use crate::api::resource::ResourceDefinition;
use decision::Decision;
use destination::{measured_as, requested};

/// Decides how each resource is stored.
pub struct StorageFactory {
    options: StorageOptions,
    /// For custom resources. Overrides are only for resources that are built in, as in Kubernetes.
    custom_options: StorageOptions,
    definitions: Vec<Arc<ResourceDefinition>>,
}

impl Decision<'_> {
    /// Returns the hub version of the row's stored resource, and the form in which it is stored.
    fn form<'d>(
        &'d self,
        definition: &'d Arc<ResourceDefinition>,
        destination: &Destination,
    ) -> (&'d Arc<ResourceDefinition>, StoredForm) {
        let hub = versions::hub(self, &destination.chosen).unwrap_or(definition);
        let form = StoredForm {
            media_type: destination.media_type,
            stored: self.stored_type(destination, hub),
            served: TypeName::of(hub),
            read: self.read_types(&destination.chosen, hub),
        };
        (hub, form)
    }

    /// The plan of the stored resource that a row belongs to.
    fn plan(
        &self,
        definition: &Arc<ResourceDefinition>,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<StoragePlan, FactoryError> {
        let destination = self.destination(&GroupResource::of(definition))?;
        let (hub, form) = self.form(definition, &destination);
        let versions = self.versions(&destination.chosen).into_iter();
        let versions: Vec<_> = versions.cloned().collect();
        let resource = StoredResource {
            name: destination.chosen.to_string(),
            group: destination.chosen.group.clone(),
            plural: destination.chosen.resource.clone(),
            hub: hub.clone(),
            versions: versions.clone(),
            stored_as: form.stored.clone(),
            shows_hash: true,
        };
        let codec = Codec::new(hub.clone()).stored_as(form);
        Ok(StoragePlan {
            versions,
            ..made(
                resource,
                codec,
                destination,
                engines,
                transformers,
                self.options,
            )?
        })
    }
}

/// The plan of a stored resource without versions.
fn made(
    resource: StoredResource,
    codec: Codec,
    destination: Destination,
    engines: &Engines,
    transformers: &dyn TransformerSource,
    options: &StorageOptions,
) -> Result<StoragePlan, FactoryError> {
    // Everything that is stored together is encrypted by the rules of the deciding resource.
    let GroupResource {
        group,
        resource: name,
    } = &requested(&destination.chosen);
    let transformer = transformers.transformer_for(group, name);
    let engine = engines.engine(&destination.back_end)?;
    let (of_group, plural) = measured_as(&resource.hub);
    let decoder = StoredDecoder::measured_as(of_group, plural, codec, transformer);
    let of = engine.clone();
    let decoder = decoder
        .shared(engine.is_shared())
        .lacking_defaults(move |revision| of.may_be_of_other_edition(revision))
        .with_clock(options.clock);
    Ok(StoragePlan {
        resource: Arc::new(resource),
        versions: Vec::new(),
        values: engine.clone(),
        converter: None,
        engine,
        decoder: Arc::new(decoder),
        destination,
        store: OnceLock::new(),
    })
}

impl StorageFactory {
    /// Creates a factory for the resources of a table.
    ///
    /// # Errors
    /// [`FactoryError`] for storage versions that do not exist, or that nothing converts into.
    pub fn new(
        options: StorageOptions,
        definitions: Vec<Arc<ResourceDefinition>>,
    ) -> Result<StorageFactory, FactoryError> {
        let custom_options = StorageOptions {
            overrides: Vec::new(),
            ..options.clone()
        };
        let factory = StorageFactory {
            options,
            custom_options,
            definitions,
        };
        let mut faults = checks::faults(&factory.decision());
        match faults.len() {
            0 => Ok(factory),
            1 => Err(faults.remove(0)),
            _ => Err(FactoryError::Several(faults)),
        }
    }

    fn decision(&self) -> Decision<'_> {
        self.decision_of(&self.definitions)
    }

    fn decision_of<'d>(&'d self, definitions: &'d [Arc<ResourceDefinition>]) -> Decision<'d> {
        Decision {
            options: &self.options,
            table: &self.definitions,
            definitions,
        }
    }

    /// The base back end, and those that keep at least one resource, in the order of the
    /// configuration.
    pub fn back_ends(&self) -> Vec<BackEnd> {
        self.decision().back_ends()
    }

    /// Where and how a resource is stored.
    ///
    /// # Errors
    /// [`FactoryError`] for an unknown resource, or one without a key prefix.
    pub fn destination(&self, resource: &GroupResource) -> Result<Destination, FactoryError> {
        self.decision().destination(resource)
    }

    /// The codec for the objects of a resource, without its encryption.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`].
    pub fn codec(&self, resource: &GroupResource) -> Result<Codec, FactoryError> {
        let decision = self.decision();
        let destination = decision.destination(resource)?;
        let row = decision.row(resource);
        let row = row.ok_or_else(|| decision.unknown(resource))?;
        let (hub, form) = decision.form(row, &destination);
        Ok(Codec::new(hub.clone()).stored_as(form))
    }

    /// The destinations of all resources of the table.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`].
    pub fn table(&self) -> Result<Vec<Destination>, FactoryError> {
        let rows = self.definitions.iter();
        let mut resources: Vec<GroupResource> = rows.map(|row| GroupResource::of(row)).collect();
        // A resource with several versions has a row for each.
        resources.dedup();
        let resources = resources.iter();
        resources.map(|one| self.destination(one)).collect()
    }

    /// The names of the resources of the table and of the stored resources that they belong to.
    pub fn resource_names(&self) -> BTreeSet<String> {
        let decision = self.decision();
        let rows = self.definitions.iter();
        rows.flat_map(|row| {
            let stored = decision.chosen(&GroupResource::of(row)).to_string();
            [row.qualified(), stored]
        })
        .collect()
    }

    /// The plan of each stored resource with these engines and the source's transformers.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`], and when a back end has no engine.
    pub fn plans(
        &self,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<Vec<StoragePlan>, FactoryError> {
        let decision = self.decision();
        let mut planned = HashSet::new();
        // The first served version plans for all.
        let first = |row: &&Arc<ResourceDefinition>| {
            let chosen = decision.chosen(&GroupResource::of(row));
            planned.insert(chosen.to_string())
        };
        let firsts = self.definitions.iter().filter(first);
        let plans = firsts.map(|row| decision.plan(row, engines, transformers));
        plans.collect()
    }

    /// Returns the resources that decide together with a version how it is stored: its own, and
    /// those of other groups that share its keys.
    pub fn cohabitants(&self, definition: &ResourceDefinition) -> Vec<GroupResource> {
        decision::cohabitants(&GroupResource::of(definition))
    }

    /// The name of the stored resource that a version belongs to, if it is served in addition to
    /// others ([`StoredResource::name`]). Of the others only its cohabitants matter, and which of
    /// their groups are served.
    pub fn stored_resource_name(
        &self,
        definition: &Arc<ResourceDefinition>,
        beside: &[Arc<ResourceDefinition>],
    ) -> String {
        let definitions = with(beside, definition);
        let decision = self.decision_of(&definitions);
        decision.chosen(&GroupResource::of(definition)).to_string()
    }

    /// Checks that a version can be stored together with the versions of a stored resource.
    ///
    /// # Errors
    /// [`FactoryError::Versions`]
    pub fn check_version(
        &self,
        resource: &StoredResource,
        definition: &Arc<ResourceDefinition>,
    ) -> Result<(), FactoryError> {
        checks::check_same_objects(&resource.hub, definition)
    }

    /// Plans the stored resource of a version that is served in addition to others. Of those, only
    /// the ones that [`StorageFactory::stored_resource_name`] names matter.
    ///
    /// # Errors
    /// Those of [`StorageFactory::plans`], and a version that cannot be converted into the one that
    /// is stored.
    pub fn plan(
        &self,
        definition: &Arc<ResourceDefinition>,
        beside: &[Arc<ResourceDefinition>],
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<StoragePlan, FactoryError> {
        let definitions = with(beside, definition);
        let decision = self.decision_of(&definitions);
        checks::check_row(&decision, definition)?;
        decision.plan(definition, engines, transformers)
    }

    /// Plans the storage of a custom resource: always JSON, in the version `resource.hub`, whatever
    /// versions are served (CRD-116).
    ///
    /// # Errors
    /// Those of [`StorageFactory::plans`].
    pub fn plan_custom(
        &self,
        resource: StoredResource,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<StoragePlan, FactoryError> {
        let definitions = [resource.hub.clone()];
        let options = &self.custom_options;
        let decision = Decision {
            options,
            ..self.decision_of(&definitions)
        };
        let destination = Destination {
            media_type: MediaType::Json,
            ..decision.destination(&GroupResource::of(&resource.hub))?
        };
        let codec = Codec::new(resource.hub.clone());
        made(resource, codec, destination, engines, transformers, options)
    }

    /// The parts of the configuration without effect, one line each.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(&self.decision())
    }
}

fn with(
    served: &[Arc<ResourceDefinition>],
    definition: &Arc<ResourceDefinition>,
) -> Vec<Arc<ResourceDefinition>> {
    served.iter().chain([definition]).cloned().collect()
}
