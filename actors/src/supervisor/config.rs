//! The configuration of the actors.

use std::sync::Arc;

use super::policy::RestartBudget;
use crate::engine::{DataEngine, Engine, Prefix, Retention};
use crate::lessor::LeaseReuse;
use crate::object::Decode;
use crate::ring::RingLimits;
use crate::watchdog::Watchdog;

/// A store that gets a Compactor and a Lessor.
#[derive(Clone)]
pub struct StoreSpec {
    /// Its name. No two stores have the same name.
    pub name: String,
    /// Its engine.
    pub engine: Arc<dyn Engine>,
    /// How much history to keep.
    pub retention: Retention,
    /// Which of its objects share a lease.
    pub leases: LeaseReuse,
}

/// Called with the name of a removed resource, after its last metric was written. Its metric
/// series can then be dropped.
pub type OnRemoved = Arc<dyn Fn(&str) + Send + Sync>;

/// The configuration of [`ActorSystem`](super::ActorSystem).
#[derive(Clone)]
pub struct ActorSystemConfig {
    /// The stores. The first one is the default store. There are more if some resources are
    /// configured to be stored elsewhere.
    pub stores: Vec<StoreSpec>,
    /// Threads for all actors but the Dispatchers; at least one.
    pub data_arbiters: usize,
    /// Shards of Writers; at least one.
    pub writer_shards: usize,
    /// Bounds of the rings.
    pub rings: RingLimits,
    /// How often an actor may fail.
    pub restarts: RestartBudget,
    /// Called for every resource that was removed.
    pub on_removed: Option<OnRemoved>,
    /// Watches the actors and their threads.
    pub watchdog: Watchdog,
}

impl ActorSystemConfig {
    /// The defaults over these stores.
    pub fn new(stores: Vec<StoreSpec>) -> ActorSystemConfig {
        ActorSystemConfig {
            stores,
            data_arbiters: 1,
            writer_shards: 4,
            rings: RingLimits::default(),
            restarts: RestartBudget::default(),
            on_removed: None,
            watchdog: Watchdog::default(),
        }
    }

    /// The defaults over one store, named `base`.
    pub fn of(engine: Arc<dyn Engine>, retention: Retention) -> ActorSystemConfig {
        ActorSystemConfig::new(vec![StoreSpec {
            name: "base".to_owned(),
            engine,
            retention,
            leases: LeaseReuse::default(),
        }])
    }
}

/// A resource to be cached.
#[derive(Clone)]
pub struct CacherSpec {
    /// Its name: `configmaps`, `deployments.apps`.
    pub resource: String,
    /// The store that keeps it.
    pub engine: Arc<dyn DataEngine>,
    /// The physical prefix of its keys, with a closing slash.
    pub prefix: Prefix,
    /// How to read what is stored there.
    pub decode: Arc<dyn Decode>,
    /// The selectable fields by which its cache indexes objects, as indices into
    /// [`Attributes::fields`](crate::object::Attributes::fields).
    pub indexed_fields: Vec<u32>,
}
