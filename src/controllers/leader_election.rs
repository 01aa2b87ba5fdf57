//! The election among the daemons on one store, decided with a Lease object as in Kubernetes' own
//! controllers. All functions are pure.
//!
//! The clocks of daemons are not compared. An elector takes over after it has seen no renewal for
//! the duration of the lease.

use std::time::Duration;

use tokio::time::Instant;

/// The duration of a lease. A holder that has not renewed for this long counts as dead.
pub(super) const LASTS: Duration = Duration::from_secs(15);
/// The interval between renewals.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(5);
/// A holder that could not renew for this long stops its work, before another daemon may take over.
pub(super) const GIVES_UP_AFTER: Duration = Duration::from_secs(10);
/// The interval between attempts of an elector, and of a holder whose renewal failed.
pub(super) const TRIED_EVERY: Duration = Duration::from_secs(2);

/// The content of the Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The holder. It is empty after the lease was released.
    pub(super) holder: String,
    /// The renewal time as its holder wrote it. It is only compared for equality.
    pub(super) renewed: String,
    /// The number of changes of the holder.
    pub(super) transitions: u64,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionAction {
    /// The lease has no living holder: write this daemon's name.
    Acquire,
    /// This daemon holds the lease: renew it.
    Renew,
    /// Another daemon holds the lease.
    Wait,
}

/// The election as one daemon sees it.
#[derive(Debug)]
pub(super) struct LeaderElection {
    identity: String,
    /// The newest record, and the time when it was first seen.
    seen: Option<(Record, Instant)>,
    /// The time until which this daemon surely holds the lease.
    holds_until: Option<Instant>,
}

impl LeaderElection {
    pub(super) fn new(identity: String) -> LeaderElection {
        LeaderElection {
            identity,
            seen: None,
            holds_until: None,
        }
    }

    /// The action for the lease that was read. `None` means that it does not exist yet.
    pub(super) fn step(&mut self, record: Option<Record>, now: Instant) -> ElectionAction {
        let Some(record) = record else {
            return ElectionAction::Acquire;
        };
        let is_same = self.seen.as_ref().is_some_and(|(seen, _)| *seen == record);
        if !is_same {
            self.seen = Some((record.clone(), now));
        }
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        if record.holder == self.identity {
            ElectionAction::Renew
        } else if record.holder.is_empty() || now.duration_since(since) >= LASTS {
            ElectionAction::Acquire
        } else {
            ElectionAction::Wait
        }
    }

    /// Records that this daemon holds the lease, written by a request that was sent at `since`.
    pub(super) fn holds(&mut self, since: Instant) {
        self.holds_until = Some(since + GIVES_UP_AFTER);
    }

    /// Records that another daemon holds the lease.
    pub(super) fn lost(&mut self) {
        self.holds_until = None;
    }

    /// Whether this daemon may work now.
    pub(super) fn is_leading(&self, now: Instant) -> bool {
        self.holds_until.is_some_and(|until| now < until)
    }

    /// The time until the next attempt. It ends before a held lease expires.
    pub(super) fn pause(&self, succeeded: bool, now: Instant) -> Duration {
        let pause = match succeeded && self.is_leading(now) {
            true => RENEWED_EVERY,
            false => TRIED_EVERY,
        };
        self.within_hold(pause, now)
    }

    /// Limits a wait to the time for which the lease is surely held, so that a holder always checks
    /// in time whether it must stop.
    pub(super) fn within_hold(&self, time: Duration, now: Instant) -> Duration {
        let left = self.holds_until.filter(|until| *until > now);
        left.map_or(time, |until| time.min(until.duration_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: u64) -> Option<Record> {
        Some(Record {
            holder: holder.to_owned(),
            renewed: renewed.to_string(),
            transitions: 0,
        })
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn who_finds_none_or_one_given_back_takes_it() {
        let start = Instant::now();
        let mut election = LeaderElection::new("a".to_owned());
        assert_eq!(election.step(None, start), ElectionAction::Acquire);
        assert_eq!(election.step(record("", 1), start), ElectionAction::Acquire);
        assert_eq!(election.step(record("a", 1), start), ElectionAction::Renew);
    }

    #[test]
    fn a_holder_is_dead_when_it_was_seen_to_do_nothing_for_as_long_as_the_lease_lasts() {
        let start = Instant::now();
        let mut election = LeaderElection::new("a".to_owned());
        for second in 0..60 {
            let renewed = record("b", second / 5);
            assert_eq!(
                election.step(renewed, after(start, second)),
                ElectionAction::Wait
            );
        }
        // Its last renewal was at second 55.
        assert_eq!(
            election.step(record("b", 11), after(start, 69)),
            ElectionAction::Wait
        );
        assert_eq!(
            election.step(record("b", 11), after(start, 70)),
            ElectionAction::Acquire
        );
    }

    #[test]
    fn who_can_not_renew_stops_before_anybody_takes_over() {
        let start = Instant::now();
        let mut election = LeaderElection::new("a".to_owned());
        election.holds(start);
        assert!(election.is_leading(after(start, 9)));
        assert!(!election.is_leading(after(start, 10)));
        assert!(GIVES_UP_AFTER < LASTS);
        election.holds(after(start, 20));
        election.lost();
        assert!(!election.is_leading(after(start, 20)));
    }

    #[test]
    fn a_holder_looks_again_sooner_when_its_renewal_failed() {
        let start = Instant::now();
        let mut election = LeaderElection::new("a".to_owned());
        assert_eq!(election.pause(true, start), TRIED_EVERY);
        election.holds(start);
        assert_eq!(election.pause(true, start), RENEWED_EVERY);
        assert_eq!(election.pause(false, start), TRIED_EVERY);
    }

    #[test]
    fn a_holder_that_cannot_renew_looks_again_when_its_time_is_over() {
        let start = Instant::now();
        let mut election = LeaderElection::new("a".to_owned());
        election.holds(start);
        let late = start + GIVES_UP_AFTER - Duration::from_millis(100);
        let left = Duration::from_millis(100);
        assert_eq!(election.within_hold(Duration::from_secs(5), late), left);
        assert_eq!(election.pause(false, late), left);
        let over = start + GIVES_UP_AFTER;
        assert!(!election.is_leading(over));
        assert_eq!(election.pause(false, over), TRIED_EVERY);
    }
}
