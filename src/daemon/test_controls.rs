//! The parts of a daemon that serves tests, and the reset of its store.
//!
//! The writers of the daemon pause during a reset, so none of them writes because of objects that
//! it read before. A reset is over when every cache shows the content, so any later read shows it,
//! too.

use std::sync::Arc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::cacher::Readiness;
use actors::engine::{EngineError, MemoryEngine, MemorySnapshot, Revision};
use actors::supervisor::ActorSystem;
use actors::tasks;
use tokio::sync::mpsc;

use super::Daemon;
use super::stores::OpenEngines;
use super::writers::Writers;
use crate::clock::OwnClock;
use crate::server::test_controls::{Reset, Snapshots, TestClock, TestControls};

/// How long a reset waits for a cache. A cache that takes longer is filled later.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries out requests to reset the store, on the thread of the controllers.
async fn carry_out(
    mut requests: mpsc::Receiver<Reset>,
    engine: Arc<MemoryEngine>,
    actor_system: ActorSystem,
    writers: Arc<Writers>,
) {
    while let Some(Reset { snapshot, done }) = requests.recv().await {
        let resetting = reset(&engine, &snapshot, &actor_system);
        let outcome = writers.pause(resetting).await;
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
        // A cache that nobody has used holds nothing, and the resource of a definition that is gone
        // is removed meanwhile.
        if cache.readiness().is_ready()
            && !cache.reached(revision, PATIENCE).await
            && cache.readiness() != Readiness::Stopped
        {
            let resource = cache.resource();
            tracing::warn!(resource, "the cache does not show the reset store yet");
        }
    }
    Ok(revision)
}

/// Returns the parts that a test may change, if the daemon has a clock of its own, and the task
/// that resets its store, if that is in memory.
pub(super) fn controls(
    clock: Option<OwnClock>,
    stores: &OpenEngines,
    actor_system: &ActorSystem,
    writers: &Arc<Writers>,
) -> Option<(Arc<TestControls>, Option<JoinHandle<()>>)> {
    let clock = TestClock::new(clock?, actor_system.clone());
    let snapshots = stores.memory.clone().map(|engine| {
        let (snapshots, requests) = Snapshots::new(engine.clone());
        let resetting = carry_out(requests, engine, actor_system.clone(), writers.clone());
        (Arc::new(snapshots), tasks::spawn_local(resetting))
    });
    let (snapshots, resetting) = snapshots.unzip();
    let controls = TestControls::new(clock, snapshots);
    Some((Arc::new(controls), resetting))
}

impl Daemon {
    /// Returns the parts that a test may change, if the daemon serves tests.
    pub fn test_controls(&self) -> Option<&Arc<TestControls>> {
        self.test.as_ref()
    }
}
