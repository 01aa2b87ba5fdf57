//! Who is due when, in slots of a quarter of a second, so that one tick serves everybody. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::slab::Ticket;

/// How fine time is: the Dispatcher ticks this often. A stream may end so much later than its
/// deadline says.
pub(super) const SLOT: Duration = Duration::from_millis(250);

/// See the module's documentation. A note stays until its time has come, so whoever is gone or
/// has been rescheduled by then must be passed over by whoever asks.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    slots: BTreeMap<u64, Vec<Ticket>>,
}

impl Schedule {
    pub(super) fn new(start: Instant) -> Schedule {
        Schedule {
            start,
            slots: BTreeMap::new(),
        }
    }

    /// Notes that something is due at this time, or a little later, never earlier.
    pub(super) fn add(&mut self, at: Instant, ticket: Ticket) {
        let since = at.saturating_duration_since(self.start);
        let slot = since.as_millis().div_ceil(SLOT.as_millis()) as u64;
        self.slots.entry(slot).or_default().push(ticket);
    }

    /// How many notes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.values().map(Vec::len).sum()
    }

    /// Takes out what is due by now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Ticket> {
        let since = now.saturating_duration_since(self.start);
        let slot = (since.as_millis() / SLOT.as_millis()) as u64;
        if self.slots.keys().next().is_none_or(|first| *first > slot) {
            return Vec::new();
        }
        let later = self.slots.split_off(&(slot + 1));
        let due = std::mem::replace(&mut self.slots, later);
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
