//! The state of a resource at an earlier revision: the newest snapshot with the ring's events
//! undone, newest first (docs/design.md 5). Each event holds the object it replaced, and a snapshot
//! is a persistent tree. So the cost depends on the number of events, not on the number of objects.

use std::sync::Arc;

use super::handle::CacherHandle;
use crate::engine::Revision;
use crate::ring::RingEvent;
use crate::snapshot::Snapshot;

/// The most events that are undone. Earlier states are read from the engine.
const EVENTS_MAX: usize = 16 * 1024;

/// Events undone before other tasks run.
const YIELD_EVENTS: usize = 128;

impl CacherHandle {
    /// The snapshot of exactly this revision; `None` if the ring does not reach back so far, the
    /// cache has not reached the revision, or too many events happened since.
    pub async fn snapshot_at(&self, revision: Revision) -> Option<Arc<Snapshot>> {
        let newest = self.snapshot()?;
        if newest.revision < revision {
            return None;
        }
        if newest.last_event() <= revision {
            return Some(newest);
        }
        let events = self
            .watch_cache
            .between(revision, newest.revision, EVENTS_MAX)?;
        let mut rewound = Snapshot::clone(&newest);
        for (undone, event) in events.iter().enumerate().rev() {
            rewound.undo(event);
            if undone % YIELD_EVENTS == YIELD_EVENTS - 1 {
                tokio::task::yield_now().await;
            }
        }
        rewound.revision = revision;
        // The true value is unknown: earlier events may have left the ring.
        rewound.last_event = revision;
        Some(Arc::new(rewound))
    }
}

impl Snapshot {
    /// Restores the object that the event replaced.
    pub(crate) fn undo(&mut self, event: &RingEvent) {
        match &event.previous {
            Some(object) => self.insert(Arc::clone(object)),
            None => self.remove(event.key()),
        };
    }
}
