//! Decides which objects share a lease (OP-1 to OP-3), as kube-apiserver's lease manager does.
//! Pure.
//!
//! One lease is remembered. An object gets it if the lease lasts at least as long as the object
//! needs, and at most a twentieth longer, or the window if that is less.

use std::time::{Duration, Instant};

use crate::engine::LeaseId;

/// How leases are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReuse {
    /// The most seconds that a lease is granted for beyond what was asked for, so that later
    /// objects can share it.
    pub window_seconds: u64,
    /// The most objects that share a lease; 0 is the default.
    pub objects_max: u64,
}

/// Kubernetes' number, for which it has no flag.
const OBJECTS_MAX: u64 = 1000;

impl Default for LeaseReuse {
    fn default() -> LeaseReuse {
        LeaseReuse {
            window_seconds: 60,
            objects_max: OBJECTS_MAX,
        }
    }
}

impl LeaseReuse {
    /// How many seconds longer than asked for a lease may last.
    fn extra(self, ttl: u64) -> u64 {
        (ttl / 20).min(self.window_seconds)
    }

    fn objects_max(self) -> u64 {
        match self.objects_max {
            0 => OBJECTS_MAX,
            some => some,
        }
    }
}

/// The lease that may be shared.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    lease: LeaseId,
    /// When it runs out at the earliest, by this clock.
    expires: Instant,
}

/// The lease that objects of a store share at the moment.
#[derive(Debug)]
pub(super) struct LeaseManager {
    rules: LeaseReuse,
    remembered: Option<Remembered>,
    /// The number of objects that the remembered lease was handed out for.
    objects: u64,
}

/// A lease to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its time to live.
    pub(super) ttl: Duration,
    /// Whether other objects can share it.
    is_shared: bool,
    /// When it was decided on, by this clock.
    asked: Instant,
}

impl LeaseManager {
    pub(super) fn new(rules: LeaseReuse) -> LeaseManager {
        LeaseManager {
            rules,
            remembered: None,
            objects: 0,
        }
    }

    /// Whether an object that lives for this many seconds can share its lease.
    pub(super) fn shares(&self, ttl: u64) -> bool {
        self.rules.extra(ttl) > 0
    }

    /// The remembered lease, if it fits an object that is to live for this many seconds.
    pub(super) fn take(&mut self, ttl: u64, now: Instant) -> Option<LeaseId> {
        let Remembered { lease, expires } = self.remembered?;
        let lives = |seconds: u64| now.checked_add(Duration::from_secs(seconds));
        let lasts = lives(ttl)? < expires;
        let soon = lives(ttl.saturating_add(self.rules.extra(ttl)))? > expires;
        let shares = self.objects < self.rules.objects_max();
        (lasts && soon && shares).then(|| {
            self.objects += 1;
            lease
        })
    }

    /// As [`LeaseManager::take`], for a caller that can have a lease granted.
    ///
    /// # Errors
    /// The lease that is to be granted.
    pub(super) fn take_or_want(&mut self, ttl: u64, now: Instant) -> Result<LeaseId, Wanted> {
        self.take(ttl, now).ok_or_else(|| {
            self.objects += 1;
            Wanted {
                is_shared: self.shares(ttl),
                ttl: Duration::from_secs(ttl.saturating_add(self.rules.extra(ttl))),
                asked: now,
            }
        })
    }

    /// Remembers a lease that was granted for its first object. Returns how many objects shared the
    /// lease before it.
    ///
    /// A lease that no other object can share is not remembered: the answer is then 1, for its own
    /// object, and the lease that is shared stays so.
    pub(super) fn granted(&mut self, lease: LeaseId, wanted: Wanted) -> u64 {
        if !wanted.is_shared {
            self.objects = self.objects.saturating_sub(1);
            return 1;
        }
        let expires = wanted.asked.checked_add(wanted.ttl);
        // A deadline beyond the range of this clock is not remembered.
        self.remembered = expires.map(|expires| Remembered { lease, expires });
        std::mem::replace(&mut self.objects, 1)
    }

    /// Forgets a lease that is gone.
    pub(super) fn forget(&mut self, lease: LeaseId) {
        self.remembered = self.remembered.filter(|known| known.lease != lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a lease at each of these seconds. Returns the leases, numbered in the order of
    /// their grants, with the seconds that they were granted for.
    fn ask(rules: LeaseReuse, asked: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let begin = Instant::now();
        let mut manager = LeaseManager::new(rules);
        let mut granted = Vec::new();
        let mut take = |(millis, ttl): &(u64, u64)| {
            let now = begin + Duration::from_millis(*millis);
            if let Some(lease) = manager.take(*ttl, now) {
                return (lease.0, granted[lease.0 as usize - 1]);
            }
            let wanted = manager.take_or_want(*ttl, now).unwrap_err();
            granted.push(wanted.ttl.as_secs());
            let lease = LeaseId(granted.len() as u64);
            manager.granted(lease, wanted);
            (lease.0, wanted.ttl.as_secs())
        };
        asked.iter().map(&mut take).collect()
    }

    #[test]
    fn events_of_an_hour_share_a_lease_for_a_minute_op_1_op_2() {
        let hour = |seconds: u64| (seconds * 1000 + 1, 3600);
        let leases = ask(
            LeaseReuse::default(),
            &[hour(0), hour(1), hour(59), hour(60), hour(61), hour(130)],
        );
        // Every object lives for 3600 to 3660 s.
        let expected = [(1, 3660), (1, 3660), (1, 3660), (2, 3660), (2, 3660)];
        assert_eq!(leases[..5], expected);
        assert_eq!(leases[5], (3, 3660));
    }

    #[test]
    fn the_window_is_a_twentieth_of_a_short_life_and_none_below_20_seconds_op_2() {
        let leases = ask(
            LeaseReuse::default(),
            &[(0, 100), (4999, 100), (5000, 100), (6000, 19), (6001, 19)],
        );
        let expected = [(1, 105), (1, 105), (2, 105), (3, 19), (4, 19)];
        assert_eq!(leases, expected);
    }

    #[test]
    fn a_lease_serves_no_object_that_is_to_live_much_longer_or_shorter_op_1() {
        let leases = ask(
            LeaseReuse::default(),
            &[(0, 3600), (1, 3660), (2, 1000), (3, 1001), (4, 990)],
        );
        // 1001 s end within the 1050 of the third; 990 and their twentieth end before it.
        let expected = [(1, 3660), (2, 3720), (3, 1050), (3, 1050), (4, 1039)];
        assert_eq!(leases, expected);
    }

    #[test]
    fn a_window_of_0_shares_nothing_sf_14() {
        let rules = LeaseReuse {
            window_seconds: 0,
            ..LeaseReuse::default()
        };
        assert_eq!(ask(rules, &[(0, 3600), (1, 3600)]), [(1, 3600), (2, 3600)]);
    }

    #[test]
    fn so_many_objects_share_a_lease_and_every_asking_counts_op_3() {
        let (now, rules) = (
            Instant::now(),
            LeaseReuse {
                objects_max: 2,
                ..LeaseReuse::default()
            },
        );
        let mut manager = LeaseManager::new(rules);
        let later = |millis| now + Duration::from_millis(millis);
        let wanted = manager.take_or_want(3600, now).unwrap_err();
        assert_eq!(manager.granted(LeaseId(1), wanted), 1, "the asking itself");
        assert_eq!(manager.objects, 1);
        assert_eq!(manager.take(3600, later(1)), Some(LeaseId(1)));
        assert_eq!(manager.objects, 2);
        assert_eq!(manager.take(3600, later(2)), None, "two objects are enough");
        let wanted = manager.take_or_want(3600, later(3)).unwrap_err();
        assert_eq!(manager.granted(LeaseId(2), wanted), 3);
        assert_eq!(manager.objects, 1);
        let most = LeaseReuse {
            objects_max: 0,
            ..rules
        };
        assert_eq!(most.objects_max(), 1000);
    }

    #[test]
    fn a_lease_that_nobody_can_share_does_not_end_the_sharing_of_another() {
        let now = Instant::now();
        let mut manager = LeaseManager::new(LeaseReuse::default());
        let hour = manager.take_or_want(3600, now).unwrap_err();
        manager.granted(LeaseId(1), hour);
        let short = manager.take_or_want(15, now).unwrap_err();
        assert_eq!(manager.granted(LeaseId(2), short), 1);
        let later = now + Duration::from_millis(1);
        assert_eq!(manager.take(3600, later), Some(LeaseId(1)));
        assert_eq!(manager.objects, 2);
    }

    #[test]
    fn a_lease_that_is_gone_is_not_given_out_again() {
        let now = Instant::now();
        let later = now + Duration::from_millis(1);
        let mut manager = LeaseManager::new(LeaseReuse::default());
        let wanted = manager.take_or_want(3600, now).unwrap_err();
        manager.granted(LeaseId(7), wanted);
        manager.forget(LeaseId(6));
        assert_eq!(manager.take(3600, later), Some(LeaseId(7)), "another one");
        manager.forget(LeaseId(7));
        assert_eq!(manager.take(3600, later), None);
        let forever = manager.take_or_want(u64::MAX, later).unwrap_err();
        manager.granted(LeaseId(8), forever);
        assert_eq!(manager.take(u64::MAX, later), None);
    }
}
