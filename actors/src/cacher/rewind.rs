//! The state of a resource at an earlier revision: the newest picture with the ring's events
//! undone, newest first (docs/design.md 5). Each event holds what it replaced, and a
//! picture is a persistent tree, so this costs what has happened since and not what there is.

use std::sync::Arc;

use super::handle::CacherHandle;
use crate::engine::Revision;
use crate::ring::RingEvent;
use crate::snapshot::{Filed, Snapshot};

/// Most events that are undone; what is further back is the store's to answer.
const EVENTS_MAX: usize = 16 * 1024;

/// Events undone before others have their turn on the thread.
const TURN_EVENTS: usize = 128;

impl CacherHandle {
    /// The picture of exactly this revision; `None` when the ring does not reach back so far, the
    /// cache has not come so far yet, or too much has happened since.
    pub async fn snapshot_at(&self, revision: Revision) -> Option<Arc<Snapshot>> {
        let newest = self.snapshot()?;
        if newest.revision < revision {
            return None;
        }
        if newest.last_event() <= revision {
            return Some(newest);
        }
        let events = self.shared.between(revision, newest.revision, EVENTS_MAX)?;
        let mut rewound = Snapshot::clone(&newest);
        for (undone, event) in events.iter().enumerate().rev() {
            rewound.undo(event);
            if undone % TURN_EVENTS == TURN_EVENTS - 1 {
                tokio::task::yield_now().await;
            }
        }
        rewound.revision = revision;
        // Not known any better: events before this one may not be in the ring any more.
        rewound.last_event = revision;
        Some(Arc::new(rewound))
    }
}

impl Snapshot {
    /// Puts back what the event replaced.
    fn undo(&mut self, event: &RingEvent) {
        let removed = match &event.previous {
            Some(object) => {
                self.bytes += object.wire.len() as u64;
                self.objects.insert(Filed(Arc::clone(object)))
            }
            None => self.objects.remove(event.key.as_bytes()),
        };
        self.bytes -= removed.map_or(0, |filed| filed.0.wire.len() as u64);
    }
}
