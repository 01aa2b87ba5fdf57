//! How many keys remain in ranges of which pages were read. Pure, except for its lock.
//!
//! The first page of a range counts its keys. Later pages at the same revision need not: the state
//! at a revision never changes, so the rest is the count minus the page.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::engine::Revision;

/// How many places are remembered: one for each list that is read in pages at the same time, with
/// room for lists that begin at the same revision.
const PLACES_MAX: usize = 256;

/// Where a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageStart {
    /// The range's prefix.
    pub prefix: Vec<u8>,
    /// The first key that the page may have.
    pub start: Vec<u8>,
    /// The revision of the state that is read.
    pub at: Revision,
    /// The epoch of the store. The same revision in another epoch is another state.
    pub epoch: u64,
}

impl PageStart {
    fn is_same_range(&self, other: &PageStart) -> bool {
        self.at == other.at && self.epoch == other.epoch && self.prefix == other.prefix
    }
}

/// The number of keys left in ranges of which a page was read. The places that were not asked for
/// longest are forgotten.
#[derive(Debug, Default)]
pub struct RemainingCounts {
    known: Mutex<VecDeque<(PageStart, u64)>>,
}

impl RemainingCounts {
    /// The number of keys from a place on.
    pub fn find(&self, place: &PageStart) -> Option<u64> {
        let mut known = self.known.lock();
        let at = known.iter().position(|(other, _)| other == place)?;
        let found = known.remove(at)?;
        let count = found.1;
        known.push_back(found);
        Some(count)
    }

    /// The nearest known place of the same range that is not before this one, and the number of
    /// keys from there on.
    pub fn next_known(&self, place: &PageStart) -> Option<(Vec<u8>, u64)> {
        let known = self.known.lock();
        let behind = known
            .iter()
            .filter(|(other, _)| other.is_same_range(place) && other.start >= place.start);
        let nearest = behind.min_by(|(one, _), (other, _)| one.start.cmp(&other.start));
        nearest.map(|(other, count)| (other.start.clone(), *count))
    }

    /// Remembers the number of keys from a place on.
    pub fn remember(&self, place: PageStart, count: u64) {
        let mut known = self.known.lock();
        known.retain(|(other, _)| *other != place);
        if known.len() >= PLACES_MAX {
            known.pop_front();
        }
        known.push_back((place, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(start: &str, at: u64) -> PageStart {
        PageStart {
            prefix: b"/r/".to_vec(),
            start: start.into(),
            at: Revision(at),
            epoch: 0,
        }
    }

    #[test]
    fn a_count_is_known_for_its_place_revision_and_epoch_only() {
        let counts = RemainingCounts::default();
        counts.remember(place("/r/b", 7), 40);
        assert_eq!(counts.find(&place("/r/b", 7)), Some(40));
        // Two clients may read the same pages.
        assert_eq!(counts.find(&place("/r/b", 7)), Some(40));
        assert_eq!(counts.find(&place("/r/b", 8)), None);
        assert_eq!(counts.find(&place("/r/a", 7)), None);
        let elsewhere = PageStart {
            epoch: 1,
            ..place("/r/b", 7)
        };
        assert_eq!(counts.find(&elsewhere), None);
    }

    #[test]
    fn a_place_between_known_ones_counts_up_to_the_next() {
        let counts = RemainingCounts::default();
        counts.remember(place("/r/f", 7), 10);
        counts.remember(place("/r/c", 7), 40);
        counts.remember(place("/r/c", 8), 50);
        let next = |start| counts.next_known(&place(start, 7));
        assert_eq!(next("/r/a"), Some((b"/r/c".to_vec(), 40)));
        assert_eq!(next("/r/c"), Some((b"/r/c".to_vec(), 40)));
        assert_eq!(next("/r/d"), Some((b"/r/f".to_vec(), 10)));
        assert_eq!(next("/r/g"), None);
    }

    #[test]
    fn the_place_not_asked_for_longest_is_forgotten() {
        let counts = RemainingCounts::default();
        for number in 0..PLACES_MAX as u64 {
            counts.remember(place("/r/b", number), number);
        }
        assert_eq!(counts.find(&place("/r/b", 0)), Some(0));
        counts.remember(place("/r/c", 0), 1);
        assert_eq!(counts.find(&place("/r/b", 0)), Some(0));
        assert_eq!(counts.find(&place("/r/b", 1)), None);
    }
}
