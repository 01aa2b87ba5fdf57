//! The plan of how one stored resource is kept. It is made before any actor runs.

use std::sync::{Arc, OnceLock};

use actors::cacher::CacherHandle;
use actors::engine::{DataEngine, Engine, FeedProgress};
use actors::lessor::{LeaseReuse, LessorHandle};
use actors::supervisor::{ActorSystem, CacherSpec};

use super::destination::Destination;
use crate::api::resource::{Converter, Effect, ResourceDefinition};
use crate::storage::cached::Cached;
use crate::storage::converted::over_former_versions;
use crate::storage::dry_run::DryRun;
use crate::storage::rewrite::RewrittenStore;
use crate::storage::underlying::{StoredDecoder, Underlying};
use crate::storage::{ResourceStorage, Storage, StoredResource};

/// The plan of one stored resource.
pub struct StoragePlan {
    pub(super) resource: Arc<StoredResource>,
    pub(super) versions: Vec<Arc<ResourceDefinition>>,
    pub(super) destination: Destination,
    pub(super) engine: Arc<dyn Engine>,
    /// The values of the engine, as the decoder reads them.
    pub(super) values: Arc<dyn DataEngine>,
    /// Converts between the versions of the resource, if that must be waited for.
    pub(super) converter: Option<Arc<dyn Converter>>,
    pub(super) decoder: Arc<StoredDecoder>,
    /// The store without its cache, once it was made.
    pub(super) store: OnceLock<Arc<Underlying>>,
}

impl StoragePlan {
    /// Has a converter convert the values that are stored in former versions.
    #[must_use]
    pub fn converting(self, converter: Arc<dyn Converter>) -> StoragePlan {
        let (resource, decoder) = (&self.resource, &self.decoder);
        let values = over_former_versions(self.values, resource, decoder, Arc::clone(&converter));
        StoragePlan {
            values,
            converter: Some(converter),
            ..self
        }
    }

    /// The stored resource.
    pub fn resource(&self) -> &Arc<StoredResource> {
        &self.resource
    }

    /// The versions that are served from it.
    pub fn versions(&self) -> &[Arc<ResourceDefinition>] {
        &self.versions
    }

    /// Each version with the storage that all of them share, as [`StoragePlan::build`] makes it.
    pub fn build_versions(
        &self,
        actor_system: &ActorSystem,
    ) -> Vec<(Arc<ResourceDefinition>, ResourceStorage)> {
        let storage = self.build(actor_system);
        let versions = self.versions.iter();
        versions.map(|row| (row.clone(), storage.clone())).collect()
    }

    /// Where and how it is stored.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The settings of its Cacher, whether or not it has one.
    pub fn cacher_spec(&self) -> CacherSpec {
        CacherSpec {
            resource: self.resource.name.clone(),
            engine: self.values.clone(),
            prefix: self.destination.keys.resource_prefix().clone(),
            decode: self.decoder.clone(),
            indexed_fields: self.decoder.codec.definition().indexed_fields(),
        }
    }

    /// Whether the cache may be filled at its first use: the store knows its newest revision, and
    /// all of its writes come from this process. So nothing appears there that nobody here has
    /// written.
    pub fn can_wait_for_first_use(&self) -> bool {
        self.engine.feed_progress() == FeedProgress::Immediate
    }

    /// Builds the storage: over its Cacher if it has a watch cache and the Cacher exists, otherwise
    /// directly over the engine.
    pub fn build(&self, actor_system: &ActorSystem) -> ResourceStorage {
        let cacher = actor_system.cacher(&self.resource.name);
        self.build_over(actor_system, cacher)
    }

    /// Builds the storage as [`StoragePlan::build`] does, over this Cacher.
    pub fn build_over(
        &self,
        actor_system: &ActorSystem,
        cacher: Option<CacherHandle>,
    ) -> ResourceStorage {
        let destination = &self.destination;
        let store = self.store(actor_system);
        let is_obeyed = self.resource.hub.rules().effect == Effect::FullAtOnce;
        let obeyed = cacher.clone().filter(|_| is_obeyed);
        let cacher = cacher.filter(|_| destination.is_cached);
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
            None => store,
        };
        let codec = self.decoder.codec.clone();
        let dry_run = DryRun::new(storage.clone(), codec, destination.keys.clone());
        ResourceStorage {
            resource: self.resource.clone(),
            storage,
            dry_run: Arc::new(dry_run),
            obeyed,
            converter: self.converter.clone(),
            base: None,
        }
    }

    /// The store without its cache, for rewriting its values.
    pub fn rewritten(&self, actor_system: &ActorSystem) -> RewrittenStore {
        RewrittenStore {
            resource: self.resource.name.clone(),
            back_end: self.destination.back_end.clone(),
            store: self.store(actor_system),
            custom_version: {
                let stored = &self.resource.hub;
                stored.rules().is_unstructured.then(|| stored.api_version())
            },
            engine: self.engine.clone(),
        }
    }

    fn store(&self, actor_system: &ActorSystem) -> Arc<Underlying> {
        let store = self
            .store
            .get_or_init(|| Arc::new(self.new_store(actor_system)));
        Arc::clone(store)
    }

    fn new_store(&self, actor_system: &ActorSystem) -> Underlying {
        let lessor = actor_system.lessor(&self.destination.back_end);
        Underlying::new(
            self.values.clone(),
            self.destination.keys.clone(),
            self.decoder.clone(),
            lessor.unwrap_or_else(|| {
                // The actor system has a Lessor for each back end, so this is not expected.
                LessorHandle::new(self.engine.clone(), LeaseReuse::default())
            }),
            Some(actor_system.writers(&self.destination.back_end)),
        )
    }
}
