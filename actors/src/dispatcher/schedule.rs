//! When members are due, in ticks of a quarter of a second: one timer serves all of them. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::slab::SlabKey;

/// The period of the Dispatcher's timer. A stream may end this much after its deadline.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// A time, in ticks since the schedule began. 34 years fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u32);

/// The members that are due, by tick. An entry stays until its time has come. The caller must skip
/// members that were removed or rescheduled meanwhile.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    ticks: BTreeMap<Tick, Vec<SlabKey>>,
}

impl Schedule {
    pub(super) fn new(start: Instant) -> Schedule {
        Schedule {
            start,
            ticks: BTreeMap::new(),
        }
    }

    /// The first tick at or after this time.
    pub(super) fn tick(&self, at: Instant) -> Tick {
        let since = at.saturating_duration_since(self.start).as_millis();
        Tick(u32::try_from(since.div_ceil(TICK.as_millis())).unwrap_or(u32::MAX))
    }

    /// The last tick that has passed.
    pub(super) fn passed(&self, now: Instant) -> Tick {
        let since = now.saturating_duration_since(self.start).as_millis();
        Tick(u32::try_from(since / TICK.as_millis()).unwrap_or(u32::MAX))
    }

    /// The time of a tick.
    pub(super) fn time(&self, tick: Tick) -> Instant {
        self.start + TICK * tick.0
    }

    /// Adds an entry that is due at this tick.
    pub(super) fn add(&mut self, tick: Tick, slab_key: SlabKey) {
        self.ticks.entry(tick).or_default().push(slab_key);
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ticks.values().map(Vec::len).sum()
    }

    /// Removes and returns the entries that are due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SlabKey> {
        let tick = self.passed(now);
        if self.ticks.keys().next().is_none_or(|first| *first > tick) {
            return Vec::new();
        }
        let later = self.ticks.split_off(&Tick(tick.0.saturating_add(1)));
        let due = std::mem::replace(&mut self.ticks, later);
        due.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::Slab;
    use super::*;

    #[test]
    fn everything_comes_once_in_order_and_never_early() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut slab = Slab::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| slab.insert(name));
        let mut schedule = Schedule::new(start);
        for (millis, slab_key) in [(1_001, c), (1_000, b), (10, a)] {
            schedule.add(schedule.tick(at(millis)), slab_key);
        }
        assert_eq!(schedule.due(at(249)), []);
        assert_eq!(schedule.due(at(250)), [a]);
        assert_eq!(schedule.due(at(1_249)), [b]);
        assert_eq!(schedule.due(at(1_250)), [c]);
        assert_eq!(schedule.due(at(9_999)), []);
    }

    #[test]
    fn a_tick_is_no_earlier_than_its_time_and_passes_with_it() {
        let start = Instant::now();
        let schedule = Schedule::new(start);
        for millis in [0, 1, 249, 250, 251, 315_360_000_000] {
            let at = start + Duration::from_millis(millis);
            let tick = schedule.tick(at);
            let time = schedule.time(tick);
            assert!(time >= at && time < at + TICK, "{millis}");
            assert_eq!(schedule.passed(time), tick);
            assert!(schedule.passed(time - Duration::from_millis(1)) < tick || millis == 0);
        }
    }
}
