//! Items of lists by their keys. Pure.
//!
//! A list of an object may have as many items as fit into a body, so no code may compare each item
//! with all others. Code that looks for duplicates collects a `HashSet` or uses [`distinct`]; code
//! that looks items up by a key builds one [`Keyed`]. The hash seed is random for each process, so
//! clients cannot choose keys that collide.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use smallvec::SmallVec;

use crate::cost;

/// Up to this many items are searched from the start, which is faster than hashing their keys.
const FEW: usize = 8;

/// Items by their keys. Several items may have the same key.
#[derive(Debug)]
pub struct Keyed<K, T>(Items<K, T>);

#[derive(Debug)]
enum Items<K, T> {
    /// In the order of the items.
    Few(Vec<(K, T)>),
    /// The items of each key, in reverse order.
    Many(HashMap<K, SmallVec<[T; 1]>>),
}

impl<K: Hash + Eq, T> Keyed<K, T> {
    /// Builds the map of items by this key.
    pub fn by(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Keyed<K, T> {
        let items = items.into_iter().map(|item| (key(&item), item));
        let items: Vec<(K, T)> = items.collect();
        if items.len() <= FEW {
            return Keyed(Items::Few(items));
        }
        let mut many: HashMap<K, SmallVec<[T; 1]>> = HashMap::with_capacity(items.len());
        for (key, item) in items.into_iter().rev() {
            many.entry(key).or_default().push(item);
        }
        Keyed(Items::Many(many))
    }

    /// Counts the comparisons of one look-up.
    fn count(&self) {
        cost::compared(match &self.0 {
            Items::Few(items) => items.len(),
            Items::Many(_) => 1,
        });
    }

    /// Returns the first item with a key.
    pub fn first<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        self.count();
        match &self.0 {
            Items::Few(items) => {
                let found = items.iter().find(|(own, _)| own.borrow() == key);
                found.map(|(_, item)| item)
            }
            Items::Many(items) => items.get(key)?.last(),
        }
    }

    /// Returns the last item with a key.
    pub fn last<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        self.count();
        match &self.0 {
            Items::Few(items) => {
                let found = items.iter().rfind(|(own, _)| own.borrow() == key);
                found.map(|(_, item)| item)
            }
            Items::Many(items) => items.get(key)?.first(),
        }
    }

    /// Removes and returns the first item with a key.
    pub fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        self.count();
        match &mut self.0 {
            Items::Few(items) => {
                let place = items.iter().position(|(own, _)| own.borrow() == key)?;
                Some(items.remove(place).1)
            }
            Items::Many(items) => items.get_mut(key)?.pop(),
        }
    }
}

/// Returns the items without repetitions, in order of their first occurrence.
pub fn distinct<T: Hash + Eq + Copy>(
    items: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = T> {
    let mut seen = HashSet::new();
    items.into_iter().filter(move |item| seen.insert(*item))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A key that counts how often keys are compared.
    #[derive(Clone, Copy, Debug)]
    struct Counting(usize);

    impl PartialEq for Counting {
        fn eq(&self, other: &Counting) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counting {}

    impl Hash for Counting {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    /// Returns how often keys are compared in look-ups of `count` items.
    fn compared(count: usize, key: impl Fn(usize) -> usize) -> usize {
        COMPARED.set(0);
        let mut keyed = Keyed::by(0..count, |item| Counting(key(*item)));
        for item in (0..count).rev() {
            assert!(keyed.first(&Counting(key(item))).is_some());
            assert!(keyed.take(&Counting(key(item))).is_some());
        }
        let keys = (0..count).map(|item| Counting(key(item)));
        assert!(distinct(keys).count() <= count);
        COMPARED.get()
    }

    #[test]
    fn no_item_is_compared_with_all_others() {
        for key in [|item| item, |_| 0] {
            let most = compared(10_000, key);
            assert!(most < 60_000, "{most}");
        }
    }

    #[test]
    fn values_of_any_type_are_keys() {
        let values = [
            json!(1),
            json!(1.0),
            json!("1"),
            json!([1]),
            json!({"a": 1}),
            Value::Null,
        ];
        let twice: Vec<&Value> = values.iter().chain(&values).collect();
        let found: Vec<&Value> = distinct(twice).collect();
        assert_eq!(found, values.iter().collect::<Vec<_>>());
        assert_eq!(distinct([&json!(0.0), &json!(-0.0)]).count(), 1);
    }

    proptest! {
        /// The result is the same as that of a search from either end of the list.
        #[test]
        fn items_are_found_like_in_a_search(
            items in prop::collection::vec(any::<(u8, u16)>(), 0..4 * FEW),
            keys: Vec<u8>,
        ) {
            let mut keyed = Keyed::by(&items, |item| item.0 % 8);
            let mut left: Vec<&(u8, u16)> = items.iter().collect();
            for key in keys.into_iter().map(|key| key % 8) {
                let is_same = |item: &&&(u8, u16)| item.0 % 8 == key;
                prop_assert_eq!(keyed.first(&key), left.iter().find(is_same));
                prop_assert_eq!(keyed.last(&key), left.iter().rfind(is_same));
                let place = left.iter().position(|item| item.0 % 8 == key);
                let taken = place.map(|place| left.remove(place));
                prop_assert_eq!(keyed.take(&key), taken);
            }
        }

        #[test]
        fn distinct_items_are_the_first_ones(items: Vec<u8>) {
            let mut expected = Vec::new();
            for item in &items {
                if !expected.contains(item) {
                    expected.push(*item);
                }
            }
            prop_assert_eq!(distinct(items).collect::<Vec<u8>>(), expected);
        }
    }
}
