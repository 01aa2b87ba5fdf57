//! Decides where and how each resource is stored: back end, key prefix, codec and transformer. Like
//! Kubernetes' storage factory, it is the only place that decides this.
//!
//! The configuration ([`options`]) and the table of resources enter; a [`StoragePlan`] for each
//! resource leaves. It must not know HTTP or strategies. Everything except
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

use std::sync::Arc;

pub use back_ends::{BASE, BackEnd, Engines};
pub use destination::Destination;
pub use error::FactoryError;
pub use options::{DEFAULT_ROOT, GroupResource, GroupVersion, StorageOptions};
pub use plan::StoragePlan;

use super::codec::{Codec, StoredForm, TypeName};
use super::transformer::TransformerSource;
use super::underlying::StoredDecoder;
use crate::api::resource::ResourceDefinition;
use decision::Decision;
use destination::measured_as;

/// Decides how each resource is stored.
pub struct StorageFactory {
    options: StorageOptions,
    definitions: Vec<Arc<ResourceDefinition>>,
}

impl Decision<'_> {
    /// The plan of a resource with these engines.
    fn plan(
        &self,
        definition: &Arc<ResourceDefinition>,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<StoragePlan, FactoryError> {
        let resource = GroupResource::new(&definition.group, &definition.plural);
        let destination = self.destination(&resource)?;
        let form = StoredForm {
            media_type: destination.media_type,
            stored: self.stored_type(&destination, definition),
            served: TypeName::of(definition),
            read: self.read_types(&destination.chosen, definition),
        };
        let GroupResource { group, resource } = &destination.requested;
        let codec = Codec::new(definition.clone()).stored_as(form);
        let transformer = transformers.transformer_for(group, resource);
        let decoder = StoredDecoder::measured_as(measured_as(definition), codec, transformer);
        Ok(StoragePlan {
            definition: definition.clone(),
            engine: engines.engine(&destination.back_end)?,
            decoder: Arc::new(decoder),
            destination,
        })
    }
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
        let factory = StorageFactory {
            options,
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
        Decision {
            options: &self.options,
            definitions: &self.definitions,
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

    /// The destinations of all resources of the table.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`].
    pub fn table(&self) -> Result<Vec<Destination>, FactoryError> {
        let rows = self.definitions.iter();
        let mut resources: Vec<GroupResource> = rows
            .map(|row| GroupResource::new(&row.group, &row.plural))
            .collect();
        // A resource with several versions has a row for each.
        resources.dedup();
        let resources = resources.iter();
        resources.map(|one| self.destination(one)).collect()
    }

    /// The plan of each resource with these engines and the source's transformers.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`], and when a back end has no engine.
    pub fn plans(
        &self,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<Vec<StoragePlan>, FactoryError> {
        let decision = self.decision();
        let definitions = self.definitions.iter();
        let plans = definitions.map(|one| decision.plan(one, engines, transformers));
        plans.collect()
    }

    /// The plan of a resource that is added to those of the table.
    ///
    /// # Errors
    /// As [`StorageFactory::plans`], and when nothing converts what it serves into what it stores.
    pub fn plan(
        &self,
        definition: &Arc<ResourceDefinition>,
        engines: &Engines,
        transformers: &dyn TransformerSource,
    ) -> Result<StoragePlan, FactoryError> {
        let mut definitions = self.definitions.clone();
        definitions.push(definition.clone());
        let decision = Decision {
            options: &self.options,
            definitions: &definitions,
        };
        checks::check_conversion(&decision, definition)?;
        decision.plan(definition, engines, transformers)
    }

    /// The parts of the configuration without effect, one line each.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(&self.decision())
    }
}
