//! When a watcher is due a bookmark, and which revision it may show. Pure (WA-40..47).

use std::time::{Duration, Instant};

use crate::engine::{Position, Revision};

/// How often a watcher gets a bookmark (WA-42).
const PERIOD: Duration = Duration::from_secs(60);
/// How long before its deadline a watcher gets its last bookmark (WA-42).
const BEFORE_DEADLINE: Duration = Duration::from_secs(2);

/// When a watcher's next bookmark is due: every minute, and two seconds before its deadline. No
/// bookmark comes after that one (WA-43). A watch of less than a minute gets only the last one.
/// `spread`, up to 10 s, separates watchers that began together.
pub(super) fn next_due(now: Instant, deadline: Instant, spread: Duration) -> Option<Instant> {
    let last = deadline.checked_sub(BEFORE_DEADLINE)?;
    if now >= last {
        return None;
    }
    let regular = now + PERIOD - spread.min(PERIOD / 6);
    Some(regular.min(last))
}

/// The revision of a bookmark for a watcher that was sent everything of its resource up to
/// `reached`; `None` if it is not newer than the start of the watch (WA-44).
///
/// If the resource has nothing newer, the bookmark shows the store's revision, so that bookmarks of
/// idle resources advance too (PF-17).
pub(super) fn revision(reached: Revision, known: Position, start: Revision) -> Option<Revision> {
    let revision = if reached >= known.prefix_revision {
        reached.max(known.revision)
    } else {
        reached
    };
    (revision > start).then_some(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_SPREAD: Duration = Duration::ZERO;

    fn due_after(timeout: u64, spread: Duration) -> Vec<u64> {
        let start = Instant::now();
        let deadline = start + Duration::from_secs(timeout);
        let mut now = start;
        let mut due = Vec::new();
        while let Some(next) = next_due(now, deadline, spread) {
            due.push((next - start).as_secs());
            now = next;
        }
        due
    }

    #[test]
    fn one_comes_each_minute_and_a_last_one_two_seconds_before_the_deadline_wa_42() {
        assert_eq!(due_after(200, NO_SPREAD), [60, 120, 180, 198]);
        assert_eq!(due_after(200, Duration::from_secs(10))[0], 50);
    }

    #[test]
    fn a_short_watch_gets_only_the_one_before_its_deadline_wa_42_wa_43() {
        assert_eq!(due_after(3, NO_SPREAD), [1]);
        assert_eq!(due_after(50, NO_SPREAD), [48]);
        assert_eq!(due_after(2, NO_SPREAD), [0; 0]);
    }

    fn at(revision: u64, prefix_revision: u64) -> Position {
        Position {
            revision: Revision(revision),
            prefix_revision: Revision(prefix_revision),
        }
    }

    #[test]
    fn an_idle_resource_shows_the_store_s_revision_pf_17_ts_85() {
        let shown = revision(Revision(7), at(2000, 7), Revision(5));
        assert_eq!(shown, Some(Revision(2000)));
    }

    #[test]
    fn what_has_not_been_sent_is_never_covered_pf_17() {
        // The event of the resource at 9 has not arrived yet.
        let shown = revision(Revision(7), at(2000, 9), Revision(5));
        assert_eq!(shown, Some(Revision(7)));
    }

    #[test]
    fn nothing_up_to_the_start_is_told_wa_44() {
        assert_eq!(revision(Revision(7), at(7, 7), Revision(7)), None);
        assert_eq!(
            revision(Revision(7), at(8, 7), Revision(7)),
            Some(Revision(8))
        );
        assert_eq!(revision(Revision(7), at(8, 7), Revision(40)), None);
    }
}
