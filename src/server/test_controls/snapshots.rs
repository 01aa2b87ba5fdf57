//! Snapshots of the store of a server for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::{EngineError, MemoryEngine, MemorySnapshot, Revision};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Resets that wait for the daemon. Further ones wait for room.
const WAITING_MAX: usize = 16;

/// The most snapshots that are kept for clients: each keeps values in memory that the store may
/// have replaced.
pub const KEPT_MAX: usize = 64;

/// Takes snapshots of the store, and resets it to them.
pub struct Snapshots {
    engine: Arc<MemoryEngine>,
    resets: mpsc::Sender<Reset>,
    kept: Mutex<Kept>,
}

/// The snapshots that are kept for clients, by their numbers.
#[derive(Debug, Default)]
struct Kept {
    last: u64,
    by_number: BTreeMap<u64, MemorySnapshot>,
}

/// A request to reset the store.
#[derive(Debug)]
pub struct Reset {
    /// The content to reset it to.
    pub snapshot: MemorySnapshot,
    /// Gets the outcome.
    pub done: oneshot::Sender<Result<Revision, EngineError>>,
}

impl Snapshots {
    /// Snapshots of this store. The daemon carries out the requests.
    pub fn new(engine: Arc<MemoryEngine>) -> (Snapshots, mpsc::Receiver<Reset>) {
        let (resets, requests) = mpsc::channel(WAITING_MAX);
        let snapshots = Snapshots {
            engine,
            resets,
            kept: Mutex::default(),
        };
        (snapshots, requests)
    }

    /// The content of the store now.
    ///
    /// # Errors
    /// The daemon has stopped.
    pub fn take(&self) -> Result<MemorySnapshot, EngineError> {
        self.engine.snapshot()
    }

    /// Resets the store to a content that it had, and returns the revision of the result.
    ///
    /// # Errors
    /// The daemon has stopped.
    pub async fn reset(&self, snapshot: MemorySnapshot) -> Result<Revision, EngineError> {
        let (done, outcome) = oneshot::channel();
        let sent = self.resets.send(Reset { snapshot, done }).await;
        sent.map_err(|_| EngineError::Closed)?;
        outcome.await.unwrap_or(Err(EngineError::Closed))
    }

    /// Keeps a snapshot and returns its number, or `None` if [`KEPT_MAX`] are kept.
    pub fn keep(&self, snapshot: MemorySnapshot) -> Option<u64> {
        let mut kept = self.kept.lock();
        if kept.by_number.len() >= KEPT_MAX {
            return None;
        }
        kept.last += 1;
        let number = kept.last;
        kept.by_number.insert(number, snapshot);
        Some(number)
    }

    /// The kept snapshot of a number.
    pub fn kept(&self, number: u64) -> Option<MemorySnapshot> {
        self.kept.lock().by_number.get(&number).cloned()
    }

    /// The numbers of the kept snapshots.
    pub fn numbers(&self) -> Vec<u64> {
        self.kept.lock().by_number.keys().copied().collect()
    }

    /// Forgets the snapshot of a number. Returns whether it was kept.
    pub fn forget(&self, number: u64) -> bool {
        self.kept.lock().by_number.remove(&number).is_some()
    }
}
