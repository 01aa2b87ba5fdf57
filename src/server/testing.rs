//! A catalog over a store in memory, for the tests of this folder.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Engine, MemoryEngine, Retention};
use actors::supervisor::{ActorSystem, ActorSystemConfig};

use crate::api::resource::ResourceDefinition;
use crate::kinds::definitions::built_in;
use crate::registry::deletion::Collector;
use crate::registry::{Registry, StoredVersion};
use crate::storage::factory::{DEFAULT_ROOT, Engines, StorageFactory, StorageOptions};
use crate::storage::transformer::Identity;

/// A store with its actors and its catalog.
pub(super) struct Stored {
    pub engine: Arc<dyn Engine>,
    pub actor_system: ActorSystem,
    pub registry: Registry,
}

impl Stored {
    /// Returns a version of an open resource, without a cache. The registry does not serve it yet.
    pub(super) fn open(&self, row: ResourceDefinition) -> StoredVersion {
        let factory = StorageFactory::new(StorageOptions::default(), Vec::new());
        let row = Arc::new(row);
        let engines = Engines::of(self.engine.clone());
        let plan = factory
            .expect("a factory")
            .plan(&row, &[], &engines, &Identity);
        (row, plan.expect("a plan").build(&self.actor_system))
    }
}

/// Returns a store with all resources. With `cached` they have filled caches.
pub(super) async fn stored(cached: bool) -> Stored {
    let stored = assembled(cached, None);
    stored.actor_system.all_ready().await;
    stored
}

/// Returns a store with caches for all resources. The cache of `resource` cannot be filled.
pub(super) async fn stored_without_cache_of(resource: &str) -> Stored {
    let closed: Arc<dyn Engine> = MemoryEngine::new();
    closed.close().await;
    let stored = assembled(true, Some((resource, closed)));
    for cacher in stored.actor_system.cachers() {
        if cacher.resource() != resource {
            cacher.settled().await;
        }
    }
    stored
}

fn assembled(cached: bool, unfilled: Option<(&str, Arc<dyn Engine>)>) -> Stored {
    let engine: Arc<dyn Engine> = MemoryEngine::new();
    let factory = StorageFactory::new(StorageOptions::default(), built_in()).expect("a factory");
    let engines = Engines::of(engine.clone());
    let plans = factory.plans(&engines, &Identity).expect("plans");
    let retention = Retention {
        age: Duration::from_secs(3600),
        bytes: 1 << 30,
    };
    let specs = plans.iter().filter(|_| cached).map(|plan| {
        let mut spec = plan.cacher_spec();
        if let Some((resource, engine)) = &unfilled
            && spec.resource == *resource
        {
            spec.engine = engine.clone();
        }
        spec
    });
    let config = ActorSystemConfig::of(Arc::clone(&engine), retention);
    let actor_system = ActorSystem::start(config, specs.collect()).expect("a actor_system");
    let plans = plans.iter();
    let storages = plans.flat_map(|plan| plan.build_versions(&actor_system));
    Stored {
        registry: Registry::new(
            DEFAULT_ROOT,
            Duration::ZERO,
            Collector::Absent,
            storages.collect(),
        ),
        engine: Arc::clone(&engine),
        actor_system,
    }
}

/// Runs a test in an actix system, as a thread of the daemon does.
pub(super) fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}
