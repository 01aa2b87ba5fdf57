//! The schedule of work on terminating namespaces, as a pure function of time.

use std::collections::HashMap;
use std::time::Duration;

use actors::backoff::Backoff;
use tokio::time::Instant;

const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The maximum wait before a held namespace is checked again.
const MOST_WAIT: Duration = Duration::from_secs(2);
/// The maximum wait after an error.
const MOST_WAIT_AFTER_ERROR: Duration = Duration::from_secs(30);

/// The waits of namespaces, by uid. A new namespace of the same name therefore starts without a
/// wait of the old one.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    entries: HashMap<String, Entry>,
    /// The wait before a new namespace is worked on.
    grace: Duration,
}

#[derive(Debug)]
struct Entry {
    held: Backoff,
    failed: Backoff,
    due: Instant,
    /// Work on it is running or about to start.
    busy: bool,
    seen: bool,
}

/// The result of the work on a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No work is left, as far as known.
    Done,
    /// Something keeps the namespace.
    Held,
    /// The time limit was reached. Other namespaces come first.
    Unfinished,
    /// The work failed.
    Failed,
}

impl WorkQueue {
    /// A queue that leaves new namespaces alone for `grace`.
    pub(super) fn new(grace: Duration) -> WorkQueue {
        WorkQueue {
            grace,
            ..WorkQueue::default()
        }
    }

    /// Whether a namespace is due. A new one is due after the grace.
    pub(super) fn is_due(&mut self, uid: &str, now: Instant) -> bool {
        let grace = self.grace;
        let entry = self.entries.entry(uid.to_owned()).or_insert_with(|| Entry {
            held: Backoff::new(FIRST_WAIT, MOST_WAIT),
            failed: Backoff::new(FIRST_WAIT, MOST_WAIT_AFTER_ERROR),
            due: now + grace,
            busy: false,
            seen: true,
        });
        entry.seen = true;
        !entry.busy && entry.due <= now
    }

    /// Records that work on a namespace starts. It is not due until the work ends.
    pub(super) fn begun(&mut self, uid: &str) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.busy = true;
        }
    }

    /// Records the result of the work on a namespace.
    pub(super) fn ended(&mut self, uid: &str, outcome: Outcome, now: Instant, random: f64) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        let wait = match outcome {
            // If the namespace is seen again, the caches lag or something else keeps it.
            Outcome::Done | Outcome::Held => {
                entry.failed.succeeded();
                entry.held.failed(random)
            }
            Outcome::Unfinished => FIRST_WAIT,
            Outcome::Failed => entry.failed.failed(random),
        };
        entry.busy = false;
        entry.due = now + wait;
    }

    /// Forgets the namespaces that were not seen since the last call.
    pub(super) fn forget_unseen(&mut self) {
        self.entries
            .retain(|_, entry| std::mem::take(&mut entry.seen) || entry.busy);
    }

    /// The time when the next namespace is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let idle = self.entries.values().filter(|entry| !entry.busy);
        idle.map(|entry| entry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_held_is_looked_at_less_and_less_often() {
        let mut schedule = WorkQueue::default();
        let start = Instant::now();
        assert!(schedule.is_due("u", start));
        schedule.ended("u", Outcome::Held, start, 1.0);
        assert!(!schedule.is_due("u", start));
        assert_eq!(schedule.next(), Some(start + FIRST_WAIT));
        assert!(schedule.is_due("u", start + FIRST_WAIT));
        for _ in 0..20 {
            schedule.ended("u", Outcome::Held, start, 1.0);
        }
        assert_eq!(schedule.next(), Some(start + MOST_WAIT));
        for _ in 0..20 {
            schedule.ended("u", Outcome::Failed, start, 1.0);
        }
        assert_eq!(schedule.next(), Some(start + MOST_WAIT_AFTER_ERROR));
    }

    #[test]
    fn a_namespace_that_is_worked_on_is_not_due() {
        let mut schedule = WorkQueue::default();
        let now = Instant::now();
        assert!(schedule.is_due("u", now));
        schedule.begun("u");
        assert!(!schedule.is_due("u", now));
        assert_eq!(schedule.next(), None);
        schedule.ended("u", Outcome::Unfinished, now, 1.0);
        assert_eq!(schedule.next(), Some(now + FIRST_WAIT));
        assert!(schedule.is_due("u", now + FIRST_WAIT));
    }

    #[test]
    fn a_namespace_that_is_gone_is_forgotten() {
        let mut schedule = WorkQueue::default();
        let now = Instant::now();
        schedule.is_due("u", now);
        schedule.ended("u", Outcome::Done, now, 0.0);
        schedule.forget_unseen();
        assert!(schedule.next().is_some());
        schedule.forget_unseen();
        assert_eq!(schedule.next(), None);
    }
}
