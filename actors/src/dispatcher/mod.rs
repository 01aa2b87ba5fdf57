//! One Dispatcher per HTTP thread: its watchers, their topics and groups.

mod start;
mod watcher;

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Semaphore;

pub use start::{StartPoint, WatchStart};
pub use watcher::Watcher;

/// How many watches at a time may read the store's history, over all threads. It keeps replays
/// from crowding out client requests in the engine; whoever finds it taken waits (DESIGN.md 4.2).
#[derive(Clone)]
pub struct HistoryPool(pub(crate) Arc<Semaphore>);

impl HistoryPool {
    /// A pool for so many reads at a time.
    pub fn new(reads: usize) -> HistoryPool {
        HistoryPool(Arc::new(Semaphore::new(reads)))
    }
}

/// What a Dispatcher needs to know.
#[derive(Clone)]
pub struct DispatcherConfig {
    /// Shared by the Dispatchers of all threads.
    pub history: HistoryPool,
    /// Bytes of values in one read of the history.
    pub history_chunk_bytes: usize,
}

impl Default for DispatcherConfig {
    fn default() -> DispatcherConfig {
        DispatcherConfig {
            history: HistoryPool::new(4),
            history_chunk_bytes: 64 << 10,
        }
    }
}

/// The Dispatcher of the calling thread.
#[derive(Clone)]
pub struct LocalDispatcher {
    _config: Rc<DispatcherConfig>,
}

impl LocalDispatcher {
    /// Starts the Dispatcher of the calling thread, which must be an actix arbiter; `id` is the
    /// thread's number, for logs and metrics.
    pub fn start(config: DispatcherConfig, _id: usize) -> LocalDispatcher {
        LocalDispatcher {
            _config: Rc::new(config),
        }
    }

    /// Registers a watch and chooses where it starts, in one turn: no event after the start point
    /// is missed and none comes twice. Poll it once after registering.
    ///
    /// Errors that a client must be told (a version too old, a cache that fills) are the caller's
    /// to find before; a watch that can't be served ends silently (WA-37).
    pub fn watch(&self, start: WatchStart) -> Watcher {
        Watcher::ended(start)
    }

    /// Ends all watches politely, with a last bookmark where one is wanted; later ones end at
    /// once.
    pub fn drain(&self) {}

    /// How many watches there are on this thread.
    pub fn watchers(&self) -> usize {
        0
    }
}
