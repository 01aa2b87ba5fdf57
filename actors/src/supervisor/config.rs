//! What the house is built from.

use std::sync::Arc;

use super::policy::RestartBudget;
use crate::engine::{DataEngine, Engine, Prefix, Retention};
use crate::lessor::LeaseReuse;
use crate::object::Decode;
use crate::ring::RingLimits;

/// A store whose history is looked after here.
#[derive(Clone)]
pub struct StoreSpec {
    /// Its name among the stores; no two have the same.
    pub name: String,
    /// Its engine.
    pub engine: Arc<dyn Engine>,
    /// How much history to keep.
    pub retention: Retention,
    /// Which of its objects share a lease.
    pub leases: LeaseReuse,
}

/// Told the name of a resource that was removed, when nothing counts for it any more: whoever keeps
/// series of metrics drops those labelled with it.
pub type OnRemoved = Arc<dyn Fn(&str) + Send + Sync>;

/// What the house is built from.
#[derive(Clone)]
pub struct HouseConfig {
    /// The stores, the one that keeps most first. There are more where some resources are kept
    /// elsewhere.
    pub stores: Vec<StoreSpec>,
    /// Threads for Cachers, Reflectors, Writers and the rest; at least one.
    pub data_arbiters: usize,
    /// Shards of Writers; at least one.
    pub writer_shards: usize,
    /// Bounds of the rings.
    pub rings: RingLimits,
    /// How often a part may fall.
    pub restarts: RestartBudget,
    /// Told of every resource that was removed.
    pub on_removed: Option<OnRemoved>,
}

impl HouseConfig {
    /// The defaults over these stores.
    pub fn new(stores: Vec<StoreSpec>) -> HouseConfig {
        HouseConfig {
            stores,
            data_arbiters: 1,
            writer_shards: 4,
            rings: RingLimits::default(),
            restarts: RestartBudget::default(),
            on_removed: None,
        }
    }

    /// The defaults over one store, named `base`.
    pub fn of(engine: Arc<dyn Engine>, retention: Retention) -> HouseConfig {
        HouseConfig::new(vec![StoreSpec {
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
}
