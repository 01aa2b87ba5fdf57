//! Which store, place, codec and transformer serve a resource: decided here and nowhere else,
//! as in Kubernetes' storage factory.
//!
//! The factory is built once, from what is configured ([`options`]); `destination.rs` and
//! `versions.rs` decide, without any engine, so that `taffrail storage table` can tell what would
//! be stored where. With engines at hand [`StorageFactory::plans`] turns that into stores.

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
    /// How a resource is stored by these engines.
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
            decorator: destination.decorator.clone(),
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
    /// A factory for the resources of a table.
    ///
    /// # Errors
    /// [`FactoryError`] for storage versions that nothing has, or that nothing converts into.
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

    /// The base back end, and those that keep some resource, in the order of the configuration.
    pub fn back_ends(&self) -> Vec<BackEnd> {
        self.decision().back_ends()
    }

    /// Where and how a resource is stored.
    ///
    /// # Errors
    /// [`FactoryError`] for a resource that nobody knows, or that has no place.
    pub fn destination(&self, resource: &GroupResource) -> Result<Destination, FactoryError> {
        self.decision().destination(resource)
    }

    /// The same for every resource of the table.
    ///
    /// # Errors
    /// As [`StorageFactory::destination`].
    pub fn table(&self) -> Result<Vec<Destination>, FactoryError> {
        let rows = self.definitions.iter();
        let mut resources: Vec<GroupResource> = rows
            .map(|row| GroupResource::new(&row.group, &row.plural))
            .collect();
        // One with several versions has a row for each.
        resources.dedup();
        let resources = resources.iter();
        resources.map(|one| self.destination(one)).collect()
    }

    /// How each resource is stored by these engines, its values transformed by what the source has
    /// for it.
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

    /// The same for a resource that comes beside those of the table.
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

    /// What is configured and has no effect, a line for each.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(&self.decision())
    }
}
