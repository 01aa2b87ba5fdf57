//! Resets a store in memory to snapshots, for tests.
//!
//! The controllers pause meanwhile, so none of them writes because of objects that it read before.
//! A reset is over when every cache shows the content, so any later read shows it, too.

use std::sync::Arc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::engine::{EngineError, MemoryEngine, MemorySnapshot, Revision};
use actors::supervisor::ActorSystem;
use tokio::sync::mpsc;

use super::stores::OpenEngines;
use crate::controllers::Controllers;
use crate::custom_resources::DeletionPause;
use crate::server::test_controls::{Reset, Snapshots};

/// How long a reset waits for a cache. A cache that takes longer is filled later.
const PATIENCE: Duration = Duration::from_secs(10);

/// The parts of the daemon that write by themselves.
pub(super) struct Writers {
    pub(super) controllers: Arc<Controllers>,
    pub(super) pause: DeletionPause,
}

/// Snapshots of the daemon's own store, if that is in memory, and the task that resets it.
pub(super) fn of(
    stores: &OpenEngines,
    actor_system: &ActorSystem,
    writers: Writers,
) -> Option<(Arc<Snapshots>, JoinHandle<()>)> {
    let engine = stores.memory.clone()?;
    let (snapshots, requests) = Snapshots::new(engine.clone());
    let resetting = carry_out(requests, engine, actor_system.clone(), writers);
    Some((Arc::new(snapshots), actix_rt::spawn(resetting)))
}

/// Carries out requests to reset the store, on the thread of the controllers.
async fn carry_out(
    mut requests: mpsc::Receiver<Reset>,
    engine: Arc<MemoryEngine>,
    actor_system: ActorSystem,
    writers: Writers,
) {
    while let Some(Reset { snapshot, done }) = requests.recv().await {
        let resetting = reset(&engine, &snapshot, &actor_system);
        let paused = writers.pause.during(resetting);
        let outcome = writers.controllers.pause(paused).await;
        // The client may not wait any longer.
        let _ = done.send(outcome);
    }
}

async fn reset(
    engine: &MemoryEngine,
    snapshot: &MemorySnapshot,
    actor_system: &ActorSystem,
) -> Result<Revision, EngineError> {
    let revision = engine.reset(snapshot)?;
    for cache in actor_system.cachers() {
        // A cache that nobody has used holds nothing.
        if cache.readiness().is_ready() && !cache.reached(revision, PATIENCE).await {
            let resource = cache.resource();
            tracing::warn!(resource, "the cache does not show the reset store yet");
        }
    }
    Ok(revision)
}
