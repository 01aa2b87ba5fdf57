//! The leases of a store in the order in which they run out. Pure: the caller says what time it is.
//!
//! Times are those of a clock that never goes back; see the embedded engine's `lease_clock`. A
//! lease takes two small rows of memory, whatever is attached to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::engine::LeaseId;

/// A time that leases are judged by, since 1970. It is not the wall clock's, which may be set:
/// what is on disk is translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseTime(pub Duration);

impl LeaseTime {
    /// The beginning of time.
    pub const ZERO: LeaseTime = LeaseTime(Duration::ZERO);

    /// The time this much later.
    pub fn after(self, time: Duration) -> LeaseTime {
        LeaseTime(self.0.saturating_add(time))
    }

    /// The time from another one to this one; zero when this is the earlier one.
    pub fn since(self, other: LeaseTime) -> Duration {
        self.0.saturating_sub(other.0)
    }
}

/// The leases of a store, by number and by the time they run out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseQueue {
    deadlines: HashMap<LeaseId, LeaseTime>,
    order: BTreeSet<(LeaseTime, LeaseId)>,
    /// Leases that could not be ended, with the time at which they are tried again.
    postponed: BTreeMap<LeaseId, LeaseTime>,
}

impl LeaseQueue {
    /// Adds a lease that runs out at this time.
    pub fn insert(&mut self, lease: LeaseId, deadline: LeaseTime) {
        self.remove(lease);
        self.deadlines.insert(lease, deadline);
        self.order.insert((deadline, lease));
    }

    /// Makes a revoked lease due at once. The answer is whether it existed and had not been revoked
    /// before.
    pub fn revoke(&mut self, lease: LeaseId) -> bool {
        let may = self.can_be_revoked(lease);
        if may {
            self.insert(lease, LeaseTime::ZERO);
        }
        may
    }

    /// Whether a lease exists and has not been revoked.
    pub fn can_be_revoked(&self, lease: LeaseId) -> bool {
        let deadline = self.deadlines.get(&lease);
        deadline.is_some_and(|deadline| *deadline > LeaseTime::ZERO)
    }

    /// When a lease runs out or has run out.
    pub fn deadline(&self, lease: LeaseId) -> Option<LeaseTime> {
        self.deadlines.get(&lease).copied()
    }

    /// The leases that have not been revoked, with the time at which each runs out.
    pub fn granted(&self) -> impl Iterator<Item = (LeaseId, LeaseTime)> {
        let all = self.deadlines.iter();
        all.map(|(lease, deadline)| (*lease, *deadline))
            .filter(|(_, deadline)| *deadline > LeaseTime::ZERO)
    }

    /// Whether a lease exists, alive or not.
    pub fn contains(&self, lease: LeaseId) -> bool {
        self.deadlines.contains_key(&lease)
    }

    /// Removes a lease that nothing is attached to. The answer is its deadline.
    pub fn remove(&mut self, lease: LeaseId) -> Option<LeaseTime> {
        let deadline = self.deadlines.remove(&lease)?;
        let place = self.postponed.remove(&lease).unwrap_or(deadline);
        self.order.remove(&(place, lease));
        Some(deadline)
    }

    /// Postpones the end of a lease that can't be ended, so that others are due before this time.
    /// It is not alive again. The answer is whether it was postponed for the first time.
    pub fn postpone(&mut self, lease: LeaseId, until: LeaseTime) -> bool {
        let Some(deadline) = self.deadlines.get(&lease) else {
            return false;
        };
        let before = self.postponed.insert(lease, until);
        self.order.remove(&(before.unwrap_or(*deadline), lease));
        self.order.insert((until, lease));
        before.is_none()
    }

    /// Postponed leases, and until when.
    pub fn postponed(&self) -> impl Iterator<Item = (LeaseId, LeaseTime)> {
        self.postponed.iter().map(|(lease, until)| (*lease, *until))
    }

    /// Whether something can be attached to a lease: it exists and has time left.
    pub fn is_alive(&self, lease: LeaseId, now: LeaseTime) -> bool {
        let deadline = self.deadlines.get(&lease);
        deadline.is_some_and(|deadline| now < *deadline)
    }

    /// The lease that has been due for longest, if any is.
    pub fn due(&self, now: LeaseTime) -> Option<LeaseId> {
        let (deadline, lease) = self.order.first()?;
        (*deadline <= now).then_some(*lease)
    }

    /// The number of leases that are due.
    pub fn count_due(&self, now: LeaseTime) -> usize {
        self.order.range(..=(now, LeaseId(u64::MAX))).count()
    }

    /// The time until the next lease runs out; zero when one has already.
    pub fn until_next(&self, now: LeaseTime) -> Option<Duration> {
        let (deadline, _) = self.order.first()?;
        Some(deadline.since(now))
    }

    /// The number of leases.
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// Whether there is no lease.
    pub fn is_empty(&self) -> bool {
        self.deadlines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LeaseTime {
        LeaseTime(Duration::from_secs(seconds))
    }

    #[test]
    fn leases_are_due_in_the_order_of_their_deadlines_and_alive_before() {
        let mut leases = LeaseQueue::default();
        assert_eq!((leases.due(at(9)), leases.until_next(at(9))), (None, None));
        leases.insert(LeaseId(1), at(30));
        leases.insert(LeaseId(2), at(20));
        assert_eq!(leases.until_next(at(15)), Some(Duration::from_secs(5)));
        assert_eq!(leases.due(at(19)), None);
        assert!(leases.is_alive(LeaseId(2), at(19)));
        assert!(!leases.is_alive(LeaseId(2), at(20)), "its time is over");
        assert_eq!(leases.due(at(40)), Some(LeaseId(2)));
        assert_eq!(leases.until_next(at(40)), Some(Duration::ZERO));
        assert_eq!(
            [19, 20, 30].map(|time| leases.count_due(at(time))),
            [0, 1, 2]
        );
        leases.remove(LeaseId(2));
        assert_eq!(leases.due(at(40)), Some(LeaseId(1)));
        leases.remove(LeaseId(1));
        assert!(leases.is_empty() && leases.due(at(40)).is_none());
        assert!(!leases.is_alive(LeaseId(3), at(0)), "never granted");
    }

    #[test]
    fn a_revoked_lease_is_due_at_once_and_can_be_revoked_only_once() {
        let mut leases = LeaseQueue::default();
        leases.insert(LeaseId(1), at(10));
        leases.insert(LeaseId(2), at(20));
        assert!(leases.revoke(LeaseId(2)));
        assert!(!leases.is_alive(LeaseId(2), at(0)));
        assert_eq!(leases.due(at(0)), Some(LeaseId(2)));
        assert!(!leases.revoke(LeaseId(2)), "once");
        assert!(!leases.revoke(LeaseId(3)), "never granted");
        leases.remove(LeaseId(2));
        assert_eq!((leases.due(at(0)), leases.len()), (None, 1));
    }

    #[test]
    fn a_lease_that_is_postponed_is_due_later_and_not_alive_again() {
        let mut leases = LeaseQueue::default();
        leases.insert(LeaseId(1), at(10));
        leases.insert(LeaseId(2), at(20));
        assert!(leases.postpone(LeaseId(1), at(100)));
        assert_eq!(leases.due(at(30)), Some(LeaseId(2)));
        assert_eq!(leases.count_due(at(30)), 1);
        assert!(!leases.is_alive(LeaseId(1), at(10)));
        assert_eq!(leases.deadline(LeaseId(1)), Some(at(10)));
        leases.remove(LeaseId(2));
        assert_eq!(leases.due(at(99)), None);
        assert_eq!(leases.until_next(at(99)), Some(Duration::from_secs(1)));
        assert_eq!(leases.due(at(100)), Some(LeaseId(1)));
        assert!(!leases.postpone(LeaseId(1), at(200)), "not the first time");
        let postponed: Vec<_> = leases.postponed().collect();
        assert_eq!(postponed, [(LeaseId(1), at(200))]);
        assert!(!leases.postpone(LeaseId(2), at(200)), "it is gone");
        leases.revoke(LeaseId(1));
        assert_eq!(leases.due(at(0)), Some(LeaseId(1)), "tried again");
        leases.remove(LeaseId(1));
        assert_eq!((leases.due(at(900)), leases.postponed().count()), (None, 0));
    }
}
