//! The parts below the Dispatchers: writers, the store, and the Cacher.

use std::cell::Cell;

use super::COLORS;
use crate::engine::{EngineError, Event, Key, Revision};
use crate::testing::{FakeCacher, key};

/// Random numbers from a seed (xorshift).
pub(super) struct RandomNumbers(Cell<u64>);

impl RandomNumbers {
    pub(super) fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub(super) fn below(&self, limit: usize) -> usize {
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        (state % limit as u64) as usize
    }
}

/// Writers, the store, and the Cacher.
pub(super) struct Background {
    pub(super) fake: FakeCacher,
    random: RandomNumbers,
    /// Acts at one of so many interleaving points, or at none.
    interrupts_once_in: Option<usize>,
    /// Whether values are written that can't be decoded.
    writes_unreadable: bool,
    compacted: Cell<u64>,
    /// How often the content of the cache was lost or replaced.
    refills: Cell<u64>,
    is_abandoned: Cell<bool>,
    is_down: Cell<bool>,
    is_quiet: Cell<bool>,
}

impl Background {
    pub(super) fn new(ring_bytes: usize, random: &RandomNumbers) -> Background {
        Background {
            fake: FakeCacher::new(ring_bytes),
            interrupts_once_in: [None, Some(40), Some(6)][random.below(3)],
            random: RandomNumbers::new(random.below(usize::MAX) as u64),
            writes_unreadable: random.below(4) == 0,
            compacted: Cell::new(0),
            refills: Cell::new(0),
            is_abandoned: Cell::new(false),
            is_down: Cell::new(false),
            is_quiet: Cell::new(false),
        }
    }

    /// Maybe acts at an interleaving point.
    pub(super) fn interrupt(&self) {
        if let Some(times) = self.interrupts_once_in
            && !self.is_quiet.get()
            && !std::thread::panicking()
            && self.random.below(times) == 0
        {
            match self.random.below(20) {
                0 => self.restart(),
                1 => self.compact(),
                2..6 => self.publish(),
                _ => self.write(),
            }
        }
    }

    pub(super) fn write(&self) {
        let names = ["ns/a", "ns/b", "other/a", "other/c"];
        let engine = &self.fake.engine;
        for _ in 0..=self.random.below(6) {
            let name = key(names[self.random.below(names.len())]);
            let color = COLORS[self.random.below(COLORS.len())];
            match self.random.below(10) {
                0..2 if engine.exists(&name) => _ = engine.delete(&name),
                0..2 => {}
                2 => _ = engine.put(&Key::new("/registry/others/x"), "red"),
                3 if self.writes_unreadable && self.random.below(6) == 0 => {
                    engine.put(&name, "undecodable");
                }
                _ => _ = engine.put(&name, color),
            }
        }
        if self.random.below(2) == 0 {
            self.publish();
        }
    }

    pub(super) fn publish(&self) {
        if !self.is_abandoned.get() {
            self.fake.publish();
        }
    }

    pub(super) fn compact(&self) {
        let newest = self.fake.engine.revision().0 as usize;
        let up_to = self.random.below(newest + 1) as u64;
        self.compacted.set(self.compacted.get().max(up_to));
        self.fake.engine.compact_now(self.compacted());
    }

    /// The Cacher ends, restarts, or fills its cache again.
    pub(super) fn restart(&self) {
        self.refills.set(self.refills.get() + 1);
        let abandons = !self.is_abandoned.get() && self.random.below(2) == 0;
        if abandons {
            self.fake.abandon();
        } else if !self.is_down.get() {
            self.fake.fill();
        } else {
            return;
        }
        self.is_abandoned.set(abandons);
    }

    /// The store can't be read for a while.
    pub(super) fn break_or_mend(&self) {
        self.is_down.set(!self.is_down.get());
        let down = EngineError::Unavailable("reopening".to_owned());
        let down = self.is_down.get().then_some(down);
        self.fake.engine.set_down(down);
    }

    /// Sets whether to act at interleaving points.
    pub(super) fn set_quiet(&self, quiet: bool) {
        self.is_quiet.set(quiet);
    }

    /// Repairs everything, and acts at no interleaving point from now on.
    pub(super) fn settle(&self) {
        self.set_quiet(true);
        if self.is_down.get() {
            self.break_or_mend();
        }
        if self.is_abandoned.get() {
            self.restart();
        }
        self.publish();
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.is_abandoned.get()
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision(self.compacted.get())
    }

    pub(super) fn refills(&self) -> u64 {
        self.refills.get()
    }

    /// All events.
    pub(super) fn log(&self) -> Vec<Event> {
        self.fake.engine.events_after(Revision::ZERO)
    }
}
