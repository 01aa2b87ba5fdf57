//! Watches of the past, kept for a moment between two chunks of history.
//!
//! etcd looks through everything from the start of a watch to the present, for each watch that
//! begins in the past. A watch that has delivered a chunk therefore waits for the reader of the
//! next one.

use std::time::Duration;

use actors::engine::{Event, HistoryRequest, Prefix, Revision};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::etcd_watch::EtcdWatch;

/// Watches kept, at most.
const WATCHES_MAX: usize = 8;
/// How long a watch is kept.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// The watches that are kept.
#[derive(Default)]
pub(super) struct IdleWatches(Mutex<Vec<IdleWatch>>);

/// A watch that has been read up to the end of a chunk.
struct IdleWatch {
    prefix: Prefix,
    reached: Revision,
    since: Instant,
    watch: HistoryWatch,
}

/// A watch of the past.
pub(super) struct HistoryWatch {
    pub(super) watch: EtcdWatch,
    /// Whether it is of the prefix, and is asked for progress. Where it can't be asked it is of the
    /// whole store, as only an event after the last one wanted shows that nothing is missing: every
    /// revision has one.
    pub(super) asks_progress: bool,
    /// Events that it has delivered after the chunk.
    pub(super) ahead: Vec<Event>,
}

impl IdleWatches {
    /// The watch that goes on where a request begins, if one of this epoch is kept.
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

    /// Keeps a watch that has been read up to this revision.
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

    /// Ends the watches that nobody came back for.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let is_wanted = |idle: &IdleWatch| now.duration_since(idle.since) < KEPT_FOR;
        self.0.lock().retain(is_wanted);
    }
}
