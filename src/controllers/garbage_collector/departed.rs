//! The objects of definitions that were deleted last. A dependent may be read only after its owner's
//! definition, which goes with its last object, so that nobody can look the owner up. Pure.

use std::collections::{HashSet, VecDeque};

use super::uid::Uid;

/// The objects that are remembered. Dependents are read a moment later.
const OBJECTS_MAX: usize = 16_384;

/// Remembers the newest deletions.
#[derive(Debug, Default)]
pub(super) struct Departed {
    uids: HashSet<Uid>,
    order: VecDeque<Uid>,
}

impl Departed {
    pub(super) fn add(&mut self, uid: Uid) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > OBJECTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_deletions_are_remembered() {
        let mut departed = Departed::default();
        let uid = |number: usize| Uid::of(&format!("uid-{number}"));
        for number in 0..=OBJECTS_MAX {
            departed.add(uid(number));
            departed.add(uid(number));
        }
        assert!(!departed.contains(&uid(0)));
        assert!(departed.contains(&uid(1)) && departed.contains(&uid(OBJECTS_MAX)));
        assert_eq!(departed.order.len(), OBJECTS_MAX);
    }
}
