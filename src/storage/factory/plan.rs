//! A resource as it is to be stored: made before any actor runs.

use std::sync::Arc;

use actors::engine::Engine;
use actors::lessor::{LeaseReuse, LessorHandle};
use actors::supervisor::{ActorSystem, CacherSpec};

use super::destination::Destination;
use crate::api::resource::ResourceDefinition;
use crate::storage::cached::Cached;
use crate::storage::dry_run::DryRun;
use crate::storage::rewrite::RewrittenStore;
use crate::storage::underlying::{StoredDecoder, Underlying};
use crate::storage::{ResourceStorage, Storage};

/// See the module's documentation.
pub struct StoragePlan {
    pub(super) definition: Arc<ResourceDefinition>,
    pub(super) destination: Destination,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) decoder: Arc<StoredDecoder>,
}

impl StoragePlan {
    /// The resource.
    pub fn definition(&self) -> &Arc<ResourceDefinition> {
        &self.definition
    }

    /// Where and how it is stored.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// What a Cacher of it needs, whether or not requests are to be served from one.
    pub fn cacher_spec(&self) -> CacherSpec {
        CacherSpec {
            resource: self.definition.qualified(),
            engine: self.engine.clone(),
            prefix: self.destination.keys.resource_prefix(),
            decode: self.decoder.clone(),
        }
    }

    /// Builds the storage: behind its Cacher where it is to have a watch cache and the house runs
    /// one, else straight over the engine.
    pub fn build(&self, house: &ActorSystem) -> ResourceStorage {
        let destination = &self.destination;
        let store = self.store(house);
        let cacher = house
            .cacher(&self.definition.qualified())
            .filter(|_| destination.is_cached);
        tracing::debug!(
            resource = %destination.requested,
            back_end = destination.back_end,
            prefix = %destination.keys.resource_prefix(),
            stored_as = %destination.storage_version,
            read_as = %destination.memory_version,
            media_type = %destination.media_type,
            cached = cacher.is_some(),
            "storage of a resource"
        );
        let storage: Arc<dyn Storage> = match cacher {
            Some(cacher) => Arc::new(Cached::new(store, cacher)),
            None => Arc::new(store),
        };
        let codec = self.decoder.codec.clone();
        let dry_run = DryRun::new(storage.clone(), codec, destination.keys.clone());
        ResourceStorage {
            storage,
            dry_run: Arc::new(dry_run),
        }
    }

    /// The store without its cache, for rewriting what it holds.
    pub fn rewritten(&self, house: &ActorSystem) -> RewrittenStore {
        RewrittenStore {
            resource: self.definition.qualified(),
            back_end: self.destination.back_end.clone(),
            store: self.store(house),
        }
    }

    fn store(&self, house: &ActorSystem) -> Underlying {
        let lessor = house.lessor(&self.destination.back_end);
        Underlying::new(
            self.engine.clone(),
            self.destination.keys.clone(),
            self.decoder.clone(),
            lessor.unwrap_or_else(|| {
                // No house without one for each store.
                LessorHandle::new(self.engine.clone(), LeaseReuse::default())
            }),
            Some(house.writers(&self.destination.back_end)),
        )
    }
}
