//! The configuration of a Dispatcher.

use super::history::HistoryPool;
use crate::watchdog::Watchdog;

/// The configuration of a Dispatcher.
#[derive(Clone)]
pub struct DispatcherConfig {
    /// Limits reads of history. The Dispatchers of all threads share it.
    pub history: HistoryPool,
    /// Bytes of values in one read of history.
    pub history_chunk_bytes: usize,
    /// Watches the Dispatcher.
    pub watchdog: Watchdog,
}

impl Default for DispatcherConfig {
    /// Four reads at a time, because history comes from disk and clients' own reads go first. 64
    /// KiB of values, about what one write to a client takes.
    fn default() -> DispatcherConfig {
        DispatcherConfig {
            history: HistoryPool::new(4),
            history_chunk_bytes: 64 << 10,
            watchdog: Watchdog::default(),
        }
    }
}
