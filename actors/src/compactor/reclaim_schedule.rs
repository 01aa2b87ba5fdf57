//! Decides when a Compactor gives space back. Pure.

use std::time::{Duration, Instant};

use crate::engine::Revision;

/// A store without writes for this long counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// The shortest time between two reclaims.
const RECLAIM_EVERY: Duration = Duration::from_secs(60);

/// The state that the next decision depends on.
#[derive(Debug)]
pub(super) struct ReclaimSchedule {
    /// The store's revision, and when it was first observed.
    newest: Revision,
    newest_since: Instant,
    reclaimed_at: Option<Instant>,
    /// Whether records were removed since the last reclaim.
    has_garbage: bool,
}

impl ReclaimSchedule {
    /// A schedule for a store that an earlier run may have left garbage in.
    pub(super) fn new(now: Instant) -> ReclaimSchedule {
        ReclaimSchedule {
            newest: Revision::ZERO,
            newest_since: now,
            reclaimed_at: None,
            has_garbage: true,
        }
    }

    /// Records the store's revision and returns whether to give space back now: the store is idle,
    /// records were removed since the last reclaim, and that was long ago.
    pub(super) fn reclaims(&mut self, now: Instant, revision: Revision) -> bool {
        if self.newest != revision {
            self.newest = revision;
            self.newest_since = now;
        }
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_idle = since(self.newest_since) >= IDLE_AFTER;
        let is_long_ago = self
            .reclaimed_at
            .is_none_or(|at| since(at) >= RECLAIM_EVERY);
        is_idle && is_long_ago && self.has_garbage
    }

    /// Records what a compaction has done.
    pub(super) fn done(&mut self, now: Instant, removed: u64, has_reclaimed: bool) {
        self.has_garbage |= removed > 0;
        if has_reclaimed {
            self.reclaimed_at = Some(now);
            self.has_garbage = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_given_back_when_idle_and_at_most_once_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut reclaim_schedule = ReclaimSchedule::new(start);
        assert!(
            !reclaim_schedule.reclaims(at(1), Revision(5)),
            "written a moment ago"
        );
        assert!(!reclaim_schedule.reclaims(at(10), Revision(5)));
        assert!(
            reclaim_schedule.reclaims(at(11), Revision(5)),
            "idle for ten seconds"
        );
        reclaim_schedule.done(at(11), 0, true);
        assert!(
            !reclaim_schedule.reclaims(at(100), Revision(5)),
            "nothing was removed"
        );
        reclaim_schedule.done(at(20), 3, false);
        assert!(
            !reclaim_schedule.reclaims(at(70), Revision(5)),
            "not a minute ago"
        );
        assert!(reclaim_schedule.reclaims(at(71), Revision(5)));
        assert!(
            !reclaim_schedule.reclaims(at(72), Revision(6)),
            "busy again"
        );
    }
}
