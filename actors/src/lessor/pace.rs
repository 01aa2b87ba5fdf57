//! Decides when the next step of expiry is due. Pure.

use std::time::{Duration, Instant};

use crate::engine::Expiry;

/// After a step that left keys over, the pause is this many times as long as the step. So writers
/// and watchers have most of the time.
const PAUSE_TIMES: u32 = 3;
/// After this time with keys left over, the pauses become as short as possible, because more keys
/// expire than the steps delete.
const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause. A step that took longer had to wait for writers itself.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// The pause after a failure.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The pause when no lease is known. There may be leases that were granted elsewhere.
const CHECK_AGAIN: Duration = Duration::from_secs(60);

/// When the next step of expiry is due.
#[derive(Debug)]
pub(super) struct Pace {
    /// Since when every step has left keys over.
    behind_since: Option<Instant>,
    wake: Instant,
}

impl Pace {
    /// The first step is due at once.
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

    /// Records a completed step.
    pub(super) fn stepped(&mut self, expiry: Expiry, began: Instant, now: Instant) {
        if !expiry.more {
            self.behind_since = None;
            self.wake = now
                + expiry
                    .next
                    .unwrap_or(CHECK_AGAIN)
                    .clamp(PAUSE_MIN, CHECK_AGAIN);
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

    /// Records a failed step.
    pub(super) fn failed(&mut self, now: Instant) {
        self.wake = now + AGAIN_AFTER_FAILURE;
    }

    /// Records a new lease that runs out at `due`.
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
        assert_eq!(pace.wake(), begin + CHECK_AGAIN);
        pace.stepped(idle(Some(Duration::MAX)), begin, begin);
        assert_eq!(pace.wake(), begin + CHECK_AGAIN);
        pace.stepped(idle(Some(Duration::ZERO)), begin, begin);
        assert_eq!(pace.wake(), begin + PAUSE_MIN);
        pace.failed(begin);
        assert_eq!(pace.wake(), begin + AGAIN_AFTER_FAILURE);
    }
}
