//! The time that leases are judged by. Pure.
//!
//! Deadlines are stored as wall-clock times, so time passes while no daemon runs. While a daemon
//! runs, its lease time is the time at its start plus the uptime of the process. Setting the wall
//! clock changes nothing then. A lease that is granted meanwhile is stored with a deadline by the
//! current wall clock, so that it has not expired at the next start.
//!
//! The lease time starts at the wall clock or at the newest stored time, whichever is later. So
//! what had expired stays expired, whatever the clock shows after a restart.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::record::LeaseRecord;
use actors::engine::local::LeaseTime;

/// A wall clock that moves by less than this was adjusted, not set.
const JUMP: Duration = Duration::from_secs(10);

/// The lease time of a running daemon.
#[derive(Debug)]
pub struct LeaseClock {
    /// The lease time at the start, since 1970.
    begun_at: Duration,
    /// The uptime at the start.
    up_at: Duration,
    /// The wall clock at `up_at`, by the last check of it.
    wall_at: Duration,
}

/// A wall clock that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// Set forward by this duration.
    Forward(Duration),
    /// Set back by this duration.
    Back(Duration),
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Jump::Forward(by) => write!(f, "{:.1} s forward", by.as_secs_f64()),
            Jump::Back(by) => write!(f, "{:.1} s back", by.as_secs_f64()),
        }
    }
}

impl Jump {
    fn between(before: Duration, after: Duration) -> Option<Jump> {
        if after > before.saturating_add(JUMP) {
            return Some(Jump::Forward(after - before));
        }
        (before > after.saturating_add(JUMP)).then(|| Jump::Back(before - after))
    }
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

impl LeaseClock {
    /// A clock that continues from the wall clock or from the newest stored time.
    pub fn new(wall: SystemTime, uptime: Duration, seen: Duration) -> LeaseClock {
        let wall = since_1970(wall);
        LeaseClock {
            begun_at: wall.max(seen),
            up_at: uptime,
            wall_at: wall,
        }
    }

    /// The lease time at this uptime.
    pub fn now(&self, uptime: Duration) -> LeaseTime {
        let passed = uptime.saturating_sub(self.up_at);
        LeaseTime(self.begun_at).after(passed)
    }

    /// The deadline to store for a lease that is granted now: by the wall clock, and never earlier
    /// than by this clock.
    pub fn stored_deadline(&self, wall: SystemTime, uptime: Duration, ttl: Duration) -> Duration {
        let now = since_1970(wall).max(self.now(uptime).0);
        now.saturating_add(ttl)
    }

    /// The deadline by this clock of a stored lease. No lease lives longer from now on than if it
    /// were granted now.
    pub fn deadline(&self, record: &LeaseRecord, uptime: Duration) -> LeaseTime {
        let longest = self.now(uptime).after(record.ttl);
        LeaseTime(record.deadline).min(longest)
    }

    /// Returns how far the wall clock was before the newest stored time at the start, if that is
    /// more than an adjustment. Until it has caught up, time without a daemon does not count.
    pub fn lag(&self) -> Option<Duration> {
        match Jump::between(self.begun_at, self.wall_at) {
            Some(Jump::Back(by)) => Some(by),
            Some(Jump::Forward(_)) | None => None,
        }
    }

    /// Checks whether the wall clock was set since the last check.
    pub fn check(&mut self, wall: SystemTime, uptime: Duration) -> Option<Jump> {
        let passed = uptime.saturating_sub(self.up_at);
        let wall_at = since_1970(wall).saturating_sub(passed);
        let jump = Jump::between(self.wall_at, wall_at);
        self.wall_at = wall_at;
        jump
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const fn at(seconds: u64) -> LeaseTime {
        LeaseTime(Duration::from_secs(seconds))
    }

    fn wall(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn it_begins_at_the_later_of_the_wall_clock_and_the_newest_time_seen() {
        let clock = LeaseClock::new(wall(1000), seconds(7), seconds(600));
        assert_eq!(clock.now(seconds(7)), at(1000), "400 s without a daemon");
        assert_eq!(clock.lag(), None);
        let clock = LeaseClock::new(wall(1000), seconds(7), seconds(4600));
        assert_eq!(clock.now(seconds(9)), at(4602), "nothing is revived");
        assert_eq!(clock.lag(), Some(seconds(3600)));
    }

    #[test]
    fn a_wall_clock_that_is_set_changes_nothing_and_is_told_once() {
        let mut clock = LeaseClock::new(wall(1000), seconds(0), seconds(0));
        assert_eq!(clock.check(wall(1030), seconds(30)), None);
        let forward = Some(Jump::Forward(seconds(3600)));
        assert_eq!(clock.check(wall(4640), seconds(40)), forward);
        assert_eq!(clock.check(wall(4650), seconds(50)), None, "told");
        assert_eq!(clock.now(seconds(50)), at(1050));
        let back = Some(Jump::Back(seconds(4000)));
        assert_eq!(clock.check(wall(660), seconds(60)), back);
        assert_eq!(clock.now(seconds(60)), at(1060));
        assert_eq!(clock.check(wall(679), seconds(70)), None, "adjusted");
        assert_eq!(clock.now(seconds(55)), at(1055));
        assert_eq!(
            forward.map(|jump| jump.to_string()).as_deref(),
            Some("3600.0 s forward")
        );
    }

    #[test]
    fn deadlines_on_disk_go_by_the_wall_clock_and_never_by_an_earlier_one() {
        let mut clock = LeaseClock::new(wall(1000), seconds(0), seconds(0));
        let stored =
            |clock: &LeaseClock, wall| clock.stored_deadline(wall, seconds(10), seconds(60));
        assert_eq!(stored(&clock, wall(1010)), seconds(1070));
        clock.check(wall(4610), seconds(10));
        assert_eq!(stored(&clock, wall(4610)), seconds(4670), "forward");
        assert_eq!(stored(&clock, wall(500)), seconds(1070), "back");
        let record = |deadline| LeaseRecord {
            revoked: false,
            ttl: seconds(60),
            deadline: seconds(deadline),
        };
        // The wall clock had been wrong when it was granted.
        let deadline = |of| clock.deadline(&record(of), seconds(10));
        assert_eq!(deadline(4670), at(1070));
        assert_eq!(deadline(1030), at(1030));
    }
}
