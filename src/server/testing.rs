//! A catalog over a store in memory, for the tests of this folder.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Engine, Retention};
use actors::supervisor::{CacherSpec, House, HouseConfig};

use crate::registry::{Catalog, DEFINITIONS};
use crate::storage::factory::{DEFAULT_ROOT, Engines, StorageFactory, StorageOptions, StoragePlan};
use crate::storage::memory::MemoryEngine;
use crate::storage::transformer::Identity;

/// A store with its actors and its catalog.
pub(super) struct Stored {
    pub engine: Arc<dyn Engine>,
    pub house: House,
    pub catalog: Catalog,
}

/// All resources; with `cached`, behind caches that are filled.
pub(super) async fn stored(cached: bool) -> Stored {
    let engine: Arc<dyn Engine> = MemoryEngine::new();
    let factory = StorageFactory::new(StorageOptions::default(), DEFINITIONS).expect("a factory");
    let engines = Engines::of(engine.clone());
    let plans = factory.plans(&engines, &Identity).expect("plans");
    let retention = Retention {
        age: Duration::from_secs(3600),
        bytes: 1 << 30,
    };
    let specs: Vec<CacherSpec> = plans.iter().map(StoragePlan::cacher_spec).collect();
    let specs = if cached { specs } else { Vec::new() };
    let config = HouseConfig::of(Arc::clone(&engine), retention);
    let house = House::start(config, specs).expect("a house");
    house.all_ready().await;
    let storages = plans
        .iter()
        .map(|plan| (plan.definition(), plan.build(&house)));
    Stored {
        catalog: Catalog::assemble(DEFAULT_ROOT, Duration::ZERO, storages.collect()),
        engine: Arc::clone(&engine),
        house,
    }
}

/// Runs a test on a system of actix, as a thread of the daemon would.
pub(super) fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}
