//! When members are due, in ticks of a quarter of a second: one timer serves all of them. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::slab::SlabKey;

/// The period of the Dispatcher's timer. A stream may end this much after its deadline.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// The members that are due, by tick. An entry stays until its time has come. The caller must skip
/// members that were removed or rescheduled meanwhile.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    ticks: BTreeMap<u64, Vec<SlabKey>>,
}

impl Schedule {
    pub(super) fn new(start: Instant) -> Schedule {
        Schedule {
            start,
            ticks: BTreeMap::new(),
        }
    }

    /// Adds an entry that is due at this time, at most a tick later and never earlier.
    pub(super) fn add(&mut self, at: Instant, slab_key: SlabKey) {
        let since = at.saturating_duration_since(self.start);
        let tick = since.as_millis().div_ceil(TICK.as_millis()) as u64;
        self.ticks.entry(tick).or_default().push(slab_key);
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ticks.values().map(Vec::len).sum()
    }

    /// Removes and returns the entries that are due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SlabKey> {
        let since = now.saturating_duration_since(self.start);
        let tick = (since.as_millis() / TICK.as_millis()) as u64;
        if self.ticks.keys().next().is_none_or(|first| *first > tick) {
            return Vec::new();
        }
        let later = self.ticks.split_off(&(tick + 1));
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
        schedule.add(at(1_001), c);
        schedule.add(at(1_000), b);
        schedule.add(at(10), a);
        assert_eq!(schedule.due(at(249)), []);
        assert_eq!(schedule.due(at(250)), [a]);
        assert_eq!(schedule.due(at(1_249)), [b]);
        assert_eq!(schedule.due(at(1_250)), [c]);
        assert_eq!(schedule.due(at(9_999)), []);
    }
}
