//! The objects with which a token has passed its check. While they are the same, it passes again,
//! so that requests need not read them. Pure.

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// An object, or the state of a cache.
pub type Part = Arc<dyn Any + Send + Sync>;

type Parts = Box<[Weak<dyn Any + Send + Sync>]>;

/// The objects with which a token has passed its check. It keeps none of them in memory.
#[derive(Default)]
pub struct Passed {
    states: Mutex<Parts>,
    objects: Mutex<Parts>,
}

impl Passed {
    /// Remembers that the token has passed by these objects, which these states of their caches
    /// show.
    pub fn remember(&self, states: &[Part], objects: &[Part]) {
        let weak = |parts: &[Part]| parts.iter().map(Arc::downgrade).collect();
        *self.states.lock() = weak(states);
        *self.objects.lock() = weak(objects);
    }

    /// Returns whether the token has passed by these states, all of which are known.
    pub fn has_states(&self, states: impl Iterator<Item = Option<Part>>) -> bool {
        are_the_same(&self.states.lock(), states)
    }

    /// Returns whether the token has passed by these objects.
    pub fn has_objects(&self, objects: &[Part]) -> bool {
        are_the_same(&self.objects.lock(), objects.iter().cloned().map(Some))
    }
}

/// A part that lives has its address for itself, and so has one that somebody remembers.
fn are_the_same(known: &Parts, mut parts: impl Iterator<Item = Option<Part>>) -> bool {
    let is_next = |known: &Weak<dyn Any + Send + Sync>| {
        let next = parts.next().flatten();
        next.is_some_and(|part| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(&part)))
    };
    !known.is_empty() && known.iter().all(is_next) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_states(passed: &Passed, states: &[Part]) -> bool {
        passed.has_states(states.iter().cloned().map(Some))
    }

    #[test]
    fn a_token_passes_by_the_same_parts_alone() {
        let part = |number: u64| Arc::new(number) as Part;
        let (one, two, again) = (part(1), part(2), part(1));
        let passed = Passed::default();
        assert!(!has_states(&passed, &[]) && !has_states(&passed, &[Arc::clone(&one)]));
        let states = [Arc::clone(&one)];
        passed.remember(&states, &[Arc::clone(&one), Arc::clone(&two)]);
        assert!(has_states(&passed, &states));
        assert!(!passed.has_objects(&states));
        assert!(passed.has_objects(&[Arc::clone(&one), Arc::clone(&two)]));
        assert!(!passed.has_objects(&[Arc::clone(&two), Arc::clone(&one)]));
        assert!(!passed.has_objects(&[Arc::clone(&again), two]));
        // Nothing can take the place of a part that is gone.
        let gone = Arc::downgrade(&one);
        drop((one, states));
        assert!(gone.upgrade().is_none() && !has_states(&passed, &[again]));
    }
}
