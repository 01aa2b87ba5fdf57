//! Snapshots of a store in memory, for tests.
//!
//! A reset runs on the thread of the controllers, which pause meanwhile: none of them writes from
//! what it read before. It is over when every cache shows the content, so any read that begins
//! afterwards shows it, too.

use std::sync::Arc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::engine::{EngineError, MemoryEngine, MemorySnapshot, Revision};
use actors::supervisor::ActorSystem;
use tokio::sync::{mpsc, oneshot};

use crate::controllers::Controllers;

/// Resets that wait for the thread. Further ones wait for room.
const WAITING_MAX: usize = 16;
/// How long a reset waits for a cache. A cache that takes longer is filled later.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes snapshots of the store, and resets it to them. Clones share the same store.
#[derive(Clone)]
pub struct Snapshots {
    engine: Arc<MemoryEngine>,
    resets: mpsc::Sender<Reset>,
}

/// A request to the thread of the controllers.
struct Reset {
    snapshot: MemorySnapshot,
    done: oneshot::Sender<Result<Revision, EngineError>>,
}

impl Snapshots {
    /// Starts the task that resets the store, on the calling thread.
    pub(super) fn start(
        engine: Arc<MemoryEngine>,
        actor_system: ActorSystem,
        controllers: Arc<Controllers>,
    ) -> (Snapshots, JoinHandle<()>) {
        let (resets, mut requests) = mpsc::channel::<Reset>(WAITING_MAX);
        let store = Arc::clone(&engine);
        let task = actix_rt::spawn(async move {
            while let Some(request) = requests.recv().await {
                let resetting = reset(&store, &request.snapshot, &actor_system);
                let outcome = controllers.pause(resetting).await;
                // The client may not wait any longer.
                let _ = request.done.send(outcome);
            }
        });
        (Snapshots { engine, resets }, task)
    }

    /// The content of the store now.
    ///
    /// # Errors
    /// The daemon has stopped.
    pub fn take(&self) -> Result<MemorySnapshot, EngineError> {
        self.engine.snapshot()
    }

    /// Resets the store to a content that it had, and returns the revision of the result. Open
    /// watches end with a Status 410.
    ///
    /// # Errors
    /// The daemon has stopped.
    pub async fn reset(&self, snapshot: MemorySnapshot) -> Result<Revision, EngineError> {
        let (done, outcome) = oneshot::channel();
        let request = Reset { snapshot, done };
        let sent = self.resets.send(request).await;
        sent.map_err(|_| EngineError::Closed)?;
        outcome.await.unwrap_or(Err(EngineError::Closed))
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
