//! What goes on behind the Dispatchers: writers, the store, and the Cacher.

use std::cell::Cell;

use super::COLORS;
use crate::engine::{EngineError, Event, Key, Revision};
use crate::testing::{FakeCacher, key};

/// Numbers that follow from a seed (xorshift).
pub(super) struct Chance(Cell<u64>);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
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

/// See the module's documentation.
pub(super) struct Others {
    pub(super) fake: FakeCacher,
    chance: Chance,
    /// They get in between once in so many times, or never.
    meets_once_in: Option<usize>,
    /// Whether values are written that can't be read.
    writes_unreadable: bool,
    compacted: Cell<u64>,
    /// How often the content of the cache was lost or replaced.
    lives: Cell<u64>,
    is_dead: Cell<bool>,
    is_down: Cell<bool>,
    is_quiet: Cell<bool>,
}

impl Others {
    pub(super) fn new(ring_bytes: usize, chance: &Chance) -> Others {
        Others {
            fake: FakeCacher::new(ring_bytes),
            meets_once_in: [None, Some(40), Some(6)][chance.below(3)],
            chance: Chance::new(chance.below(usize::MAX) as u64),
            writes_unreadable: chance.below(4) == 0,
            compacted: Cell::new(0),
            lives: Cell::new(0),
            is_dead: Cell::new(false),
            is_down: Cell::new(false),
            is_quiet: Cell::new(false),
        }
    }

    /// A Dispatcher is between two steps.
    pub(super) fn meet(&self) {
        if let Some(times) = self.meets_once_in
            && !self.is_quiet.get()
            && !std::thread::panicking()
            && self.chance.below(times) == 0
        {
            match self.chance.below(20) {
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
        for _ in 0..=self.chance.below(6) {
            let name = key(names[self.chance.below(names.len())]);
            let color = COLORS[self.chance.below(COLORS.len())];
            match self.chance.below(10) {
                0..2 if engine.exists(&name) => _ = engine.delete(&name),
                0..2 => {}
                2 => _ = engine.put(&Key::new("/registry/others/x"), "red"),
                3 if self.writes_unreadable && self.chance.below(6) == 0 => {
                    engine.put(&name, "undecodable");
                }
                _ => _ = engine.put(&name, color),
            }
        }
        if self.chance.below(2) == 0 {
            self.publish();
        }
    }

    pub(super) fn publish(&self) {
        if !self.is_dead.get() {
            self.fake.publish();
        }
    }

    pub(super) fn compact(&self) {
        let newest = self.fake.engine.revision().0 as usize;
        let up_to = self.chance.below(newest + 1) as u64;
        self.compacted.set(self.compacted.get().max(up_to));
        self.fake.engine.compact_now(self.compacted());
    }

    /// The Cacher dies, lives again, or lists anew.
    pub(super) fn restart(&self) {
        self.lives.set(self.lives.get() + 1);
        let dies = !self.is_dead.get() && self.chance.below(2) == 0;
        if dies {
            self.fake.abandon();
        } else if !self.is_down.get() {
            self.fake.fill();
        } else {
            return;
        }
        self.is_dead.set(dies);
    }

    /// The store can't be read for a while.
    pub(super) fn break_or_mend(&self) {
        self.is_down.set(!self.is_down.get());
        let down = EngineError::Unavailable("reopening".to_owned());
        let down = self.is_down.get().then_some(down);
        self.fake.engine.set_down(down);
    }

    /// Whether they keep out of the Dispatchers' way.
    pub(super) fn set_quiet(&self, quiet: bool) {
        self.is_quiet.set(quiet);
    }

    /// All is well from here on, and quiet.
    pub(super) fn settle(&self) {
        self.set_quiet(true);
        if self.is_down.get() {
            self.break_or_mend();
        }
        if self.is_dead.get() {
            self.restart();
        }
        self.publish();
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.is_dead.get()
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision(self.compacted.get())
    }

    pub(super) fn lives(&self) -> u64 {
        self.lives.get()
    }

    /// Everything that ever happened.
    pub(super) fn log(&self) -> Vec<Event> {
        self.fake.engine.events_after(Revision::ZERO)
    }
}
