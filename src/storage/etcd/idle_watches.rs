//! Keeps watches of the past for a moment between two chunks of history.
//!
//! For each watch that starts in the past, etcd scans everything from its start to the present. So
//! a watch that has delivered a chunk waits for the reader of the next one.

use std::time::Duration;

use actors::engine::{Event, HistoryRequest, Prefix, Revision};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::etcd_watch::EtcdWatch;

/// The most watches that are kept.
const WATCHES_MAX: usize = 8;
/// How long a watch is kept.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// The watches that are kept.
#[derive(Default)]
pub(super) struct IdleWatches(Mutex<Vec<IdleWatch>>);

/// A watch that was read up to the end of a chunk.
struct IdleWatch {
    prefix: Prefix,
    reached: Revision,
    since: Instant,
    watch: HistoryWatch,
}

/// A watch of the past.
pub(super) struct HistoryWatch {
    pub(super) watch: EtcdWatch,
    /// Whether it is of the prefix only and is asked for progress. Otherwise it is of the whole
    /// store: without progress only an event after the last wanted one shows that nothing is
    /// missing, and every revision has an event.
    pub(super) asks_progress: bool,
    /// Events after the chunk that it has delivered.
    pub(super) ahead: Vec<Event>,
}

impl IdleWatches {
    /// The kept watch of this epoch that continues where a request begins.
    pub(super) fn take(&self, request: &HistoryRequest, epoch: u64) -> Option<HistoryWatch> {
        self.sweep();
        let mut idle = self.0.lock();
        let found = idle.iter().position(|idle| {
            idle.reached == request.after
                && idle.prefix == request.prefix
                && idle.watch.watch.epoch() == epoch
        })?;
        Some(idle.swap_remove(found).watch)
    }

    /// Keeps a watch that was read up to this revision.
    pub(super) fn keep(&self, prefix: &Prefix, reached: Revision, watch: HistoryWatch) {
        let mut idle = self.0.lock();
        if idle.len() >= WATCHES_MAX {
            idle.remove(0);
        }
        idle.push(IdleWatch {
            prefix: prefix.clone(),
            reached,
            since: Instant::now(),
            watch,
        });
    }

    /// Ends the watches that no reader continued.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let is_wanted = |idle: &IdleWatch| now.duration_since(idle.since) < KEPT_FOR;
        self.0.lock().retain(is_wanted);
    }
}
