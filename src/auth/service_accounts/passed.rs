//! The objects with which a token has passed its check. While they are the same, it passes again, so
//! that requests need not read them. Pure.

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

    /// Returns whether the token has passed by these states.
    pub fn has_states(&self, states: &[Part]) -> bool {
        are_the_same(&self.states.lock(), states)
    }

    /// Returns whether the token has passed by these objects.
    pub fn has_objects(&self, objects: &[Part]) -> bool {
        are_the_same(&self.objects.lock(), objects)
    }
}

/// A part that lives has its address for itself, and so has one that somebody remembers.
fn are_the_same(known: &Parts, parts: &[Part]) -> bool {
    let is_same =
        |(known, part): (&Weak<_>, &Part)| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(part));
    !parts.is_empty() && known.len() == parts.len() && known.iter().zip(parts).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_passes_by_the_same_parts_alone() {
        let part = |number: u64| Arc::new(number) as Part;
        let (one, two, again) = (part(1), part(2), part(1));
        let passed = Passed::default();
        assert!(!passed.has_states(&[]) && !passed.has_states(&[Arc::clone(&one)]));
        let states = [Arc::clone(&one)];
        passed.remember(&states, &[Arc::clone(&one), Arc::clone(&two)]);
        assert!(passed.has_states(&states));
        assert!(!passed.has_objects(&states));
        assert!(passed.has_objects(&[Arc::clone(&one), Arc::clone(&two)]));
        assert!(!passed.has_objects(&[Arc::clone(&two), Arc::clone(&one)]));
        assert!(!passed.has_objects(&[Arc::clone(&again), two]));
        // Nothing can take the place of a part that is gone.
        let gone = Arc::downgrade(&one);
        drop((one, states));
        assert!(gone.upgrade().is_none() && !passed.has_states(&[again]));
    }
}
