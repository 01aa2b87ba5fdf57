//! When the next step of expiry is due. Pure.

use std::time::{Duration, Instant};

use crate::engine::Expiry;

/// After a step that left some over, the pause is so many times as long as it took: writers, and
/// who is told of the deletions, have most of the time for themselves.
const PAUSE_TIMES: u32 = 3;
/// After so long without an end there are too many for that: more expires than that pace can take,
/// and what is never deleted would be worse than what waits for a step.
const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest pause, however short the step.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest one: a step that took long waited for its turn.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// After a failure.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// When nothing is to be expected: leases may have come that nobody told of.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pace {
    /// Since when every step has left some over.
    behind_since: Option<Instant>,
    wake: Instant,
}

impl Pace {
    /// A pace that begins at once.
    pub(super) fn new(now: Instant) -> Pace {
        Pace {
            behind_since: None,
            wake: now,
        }
    }

    /// When the next step is due.
    pub(super) fn wake(&self) -> Instant {
        self.wake
    }

    /// A step has been done.
    pub(super) fn stepped(&mut self, expiry: Expiry, began: Instant, now: Instant) {
        if !expiry.more {
            self.behind_since = None;
            self.wake = now
                + expiry
                    .next
                    .unwrap_or(LOOK_AGAIN)
                    .clamp(PAUSE_MIN, LOOK_AGAIN);
            return;
        }
        let since = *self.behind_since.get_or_insert(began);
        let times = match now.saturating_duration_since(since) < PATIENCE {
            true => PAUSE_TIMES,
            false => 0,
        };
        let took = now.saturating_duration_since(began);
        self.wake = now + (took * times).clamp(PAUSE_MIN, PAUSE_MAX);
    }

    /// A step has failed.
    pub(super) fn failed(&mut self, now: Instant) {
        self.wake = now + AGAIN_AFTER_FAILURE;
    }

    /// A lease was granted that runs out then.
    pub(super) fn granted(&mut self, due: Instant) {
        self.wake = self.wake.min(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn left_over() -> Expiry {
        Expiry {
            expired: 64,
            more: true,
            next: Some(Duration::ZERO),
        }
    }

    #[test]
    fn writers_have_three_quarters_of_the_time_while_keys_wait() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        assert_eq!(pace.wake(), begin);
        pace.stepped(left_over(), begin, begin + millis(5));
        assert_eq!(pace.wake(), begin + millis(20));
        let began = pace.wake();
        pace.stepped(left_over(), began, began + millis(500));
        assert_eq!(
            pace.wake(),
            began + millis(750),
            "no longer than it need be"
        );
        let began = pace.wake();
        pace.stepped(left_over(), began, began);
        assert_eq!(pace.wake(), began + PAUSE_MIN);
    }

    #[test]
    fn it_hastens_when_more_expires_than_that_pace_can_take() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        pace.stepped(left_over(), begin, begin + millis(10));
        let late = begin + PATIENCE;
        pace.stepped(left_over(), late, late + millis(10));
        assert_eq!(pace.wake(), late + millis(10) + PAUSE_MIN);
        pace.stepped(Expiry::default(), late, late);
        pace.stepped(left_over(), late, late + millis(10));
        assert_eq!(pace.wake(), late + millis(40), "it had caught up");
    }

    #[test]
    fn it_wakes_when_the_next_lease_runs_out_also_one_granted_since() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        let idle = |next| Expiry {
            next,
            ..Expiry::default()
        };
        pace.stepped(idle(Some(millis(1500))), begin, begin);
        assert_eq!(pace.wake(), begin + millis(1500));
        pace.granted(begin + millis(2000));
        assert_eq!(pace.wake(), begin + millis(1500));
        pace.granted(begin + millis(1000));
        assert_eq!(pace.wake(), begin + millis(1000));
        pace.stepped(idle(None), begin, begin);
        assert_eq!(pace.wake(), begin + LOOK_AGAIN);
        pace.stepped(idle(Some(Duration::MAX)), begin, begin);
        assert_eq!(pace.wake(), begin + LOOK_AGAIN);
        pace.stepped(idle(Some(Duration::ZERO)), begin, begin);
        assert_eq!(pace.wake(), begin + PAUSE_MIN);
        pace.failed(begin);
        assert_eq!(pace.wake(), begin + AGAIN_AFTER_FAILURE);
    }
}
