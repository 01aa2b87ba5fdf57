//! Which objects share a lease (OP-1 to OP-3). Pure.
//!
//! One lease is remembered. An object gets it if it then lives at least as long as it is to, and
//! no longer than a twentieth more or the window, whichever is less.

use std::time::{Duration, Instant};

use crate::engine::LeaseId;

/// How leases are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReuse {
    /// A lease is granted for so many seconds more than was asked for, at most, to be shared by
    /// what is created meanwhile.
    pub window_seconds: u64,
    /// So many objects share a lease at most; 0 is the default.
    pub objects_max: u64,
}

/// What Kubernetes takes, which has no flag for it.
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
    /// How much longer than asked for a lease may live, in seconds.
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

/// The lease that may be given out again.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    lease: LeaseId,
    /// By this clock, when it runs out at the earliest.
    expires: Instant,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Reuse {
    rules: LeaseReuse,
    remembered: Option<Remembered>,
    /// Objects that the remembered lease was given out for, whatever became of them.
    objects: u64,
}

/// A lease to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// How long it is to live.
    pub(super) ttl: Duration,
    /// By this clock, when it was decided on.
    asked: Instant,
}

impl Reuse {
    pub(super) fn new(rules: LeaseReuse) -> Reuse {
        Reuse {
            rules,
            remembered: None,
            objects: 0,
        }
    }

    /// Whether an object that is to live for so many seconds can share its lease.
    pub(super) fn shares(&self, ttl: u64) -> bool {
        self.rules.extra(ttl) > 0
    }

    /// The remembered lease, if it will do for an object that is to live for so many seconds.
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

    /// As [`Reuse::take`], for who has a lease granted otherwise.
    ///
    /// # Errors
    /// The lease that is to be granted.
    pub(super) fn take_or_want(&mut self, ttl: u64, now: Instant) -> Result<LeaseId, Wanted> {
        self.take(ttl, now).ok_or_else(|| {
            self.objects += 1;
            Wanted {
                ttl: Duration::from_secs(ttl.saturating_add(self.rules.extra(ttl))),
                asked: now,
            }
        })
    }

    /// Remembers a lease that was granted for the first of its objects; says how many times the
    /// one before was asked for.
    pub(super) fn granted(&mut self, lease: LeaseId, wanted: Wanted) -> u64 {
        let expires = wanted.asked.checked_add(wanted.ttl);
        // One that runs out after the end of this clock's time is not worth remembering.
        self.remembered = expires.map(|expires| Remembered { lease, expires });
        std::mem::replace(&mut self.objects, 1)
    }

    /// The lease is gone.
    pub(super) fn forget(&mut self, lease: LeaseId) {
        self.remembered = self.remembered.filter(|known| known.lease != lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks at each of these seconds; tells the leases, numbered as they are granted, with the
    /// seconds that they were granted for.
    fn ask(rules: LeaseReuse, asked: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let begin = Instant::now();
        let mut reuse = Reuse::new(rules);
        let mut granted = Vec::new();
        let mut take = |(millis, ttl): &(u64, u64)| {
            let now = begin + Duration::from_millis(*millis);
            if let Some(lease) = reuse.take(*ttl, now) {
                return (lease.0, granted[lease.0 as usize - 1]);
            }
            let wanted = reuse.take_or_want(*ttl, now).unwrap_err();
            granted.push(wanted.ttl.as_secs());
            let lease = LeaseId(granted.len() as u64);
            reuse.granted(lease, wanted);
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
        let mut reuse = Reuse::new(rules);
        let later = |millis| now + Duration::from_millis(millis);
        let wanted = reuse.take_or_want(3600, now).unwrap_err();
        assert_eq!(reuse.granted(LeaseId(1), wanted), 1, "the asking itself");
        assert_eq!(reuse.objects, 1);
        assert_eq!(reuse.take(3600, later(1)), Some(LeaseId(1)));
        assert_eq!(reuse.objects, 2);
        assert_eq!(reuse.take(3600, later(2)), None, "two objects are enough");
        let wanted = reuse.take_or_want(3600, later(3)).unwrap_err();
        assert_eq!(reuse.granted(LeaseId(2), wanted), 3);
        assert_eq!(reuse.objects, 1);
        let most = LeaseReuse {
            objects_max: 0,
            ..rules
        };
        assert_eq!(most.objects_max(), 1000);
    }

    #[test]
    fn a_lease_that_is_gone_is_not_given_out_again() {
        let now = Instant::now();
        let later = now + Duration::from_millis(1);
        let mut reuse = Reuse::new(LeaseReuse::default());
        let wanted = reuse.take_or_want(3600, now).unwrap_err();
        reuse.granted(LeaseId(7), wanted);
        reuse.forget(LeaseId(6));
        assert_eq!(reuse.take(3600, later), Some(LeaseId(7)), "another one");
        reuse.forget(LeaseId(7));
        assert_eq!(reuse.take(3600, later), None);
        let forever = reuse.take_or_want(u64::MAX, later).unwrap_err();
        reuse.granted(LeaseId(8), forever);
        assert_eq!(reuse.take(u64::MAX, later), None);
    }
}
