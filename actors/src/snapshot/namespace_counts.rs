//! The number of objects in each namespace, which pages of lists report without counting. Pure.

use std::ops::Bound;

use imbl::OrdMap;

use crate::engine::{Key, Prefix, namespace_of};

/// The number of objects by the part of their keys up to the last slash. It is a persistent tree,
/// as the objects are.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceCounts {
    counts: OrdMap<Key, u64>,
}

impl NamespaceCounts {
    /// The counts of these keys. Keys of one namespace should follow one another.
    pub(super) fn of<'k>(keys: impl Iterator<Item = &'k [u8]>) -> NamespaceCounts {
        let mut counts = NamespaceCounts::default();
        let mut run: Option<(&[u8], u64)> = None;
        for key in keys {
            let namespace = namespace_of(key);
            match &mut run {
                Some((same, length)) if *same == namespace => *length += 1,
                _ => {
                    counts.add(run.replace((namespace, 1)));
                }
            }
        }
        counts.add(run);
        counts
    }

    fn add(&mut self, run: Option<(&[u8], u64)>) {
        let Some((namespace, more)) = run else { return };
        match self.counts.get_mut(namespace) {
            Some(count) => *count += more,
            None => {
                self.counts.insert(Key::new(namespace), more);
            }
        }
    }

    /// An object was added.
    pub(super) fn added(&mut self, key: &[u8]) {
        self.add(Some((namespace_of(key), 1)));
    }

    /// An object was removed.
    pub(super) fn removed(&mut self, key: &[u8]) {
        let namespace = namespace_of(key);
        match self.counts.get_mut(namespace) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.counts.remove(namespace);
            }
        }
    }

    /// The number of objects below a prefix that ends in a slash.
    pub(super) fn below(&self, prefix: &Prefix) -> u64 {
        let from = Bound::Included(prefix.as_bytes());
        self.counts
            .range::<_, [u8]>((from, Bound::Unbounded))
            .take_while(|(namespace, _)| prefix.covers(namespace))
            .map(|(_, count)| count)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_namespace_and_below_shorter_prefixes() {
        let keys: [&[u8]; 4] = [b"/r/a/1", b"/r/a/2", b"/r/ab/1", b"/r/b/1"];
        let mut counts = NamespaceCounts::of(keys.into_iter());
        let below = |counts: &NamespaceCounts, prefix: &str| counts.below(&Prefix::new(prefix));
        let before = counts.clone();
        assert_eq!((below(&counts, "/r/a/"), below(&counts, "/r/")), (2, 4));
        counts.added(b"/r/b/2");
        counts.removed(keys[0]);
        counts.removed(keys[2]);
        assert_eq!((below(&counts, "/r/a/"), below(&counts, "/r/")), (1, 3));
        assert_eq!((below(&counts, "/r/ab/"), below(&counts, "/r/b/")), (0, 2));
        assert_eq!(counts.counts.len(), 2, "an empty namespace takes nothing");
        assert_eq!(below(&before, "/r/"), 4, "a clone never changes");
    }
}
