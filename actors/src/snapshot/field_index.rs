//! Objects by the values of indexed fields, so that a list that demands a value reads only the
//! objects that have it. Pure.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdSet;

use crate::object::CachedObject;

/// The objects with a value in an indexed field, ordered by field, value and key. It is a
/// persistent tree, as the objects are. Objects whose value is empty are not in it.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldIndex {
    /// Indices into [`Attributes::fields`](crate::object::Attributes::fields).
    places: Arc<[u32]>,
    entries: OrdSet<Entry>,
}

/// An object, ordered by one of its fields. The tree holds no second value and no second key.
#[derive(Clone, Debug)]
struct Entry {
    object: Arc<CachedObject>,
    place: u32,
}

/// The order of entries.
trait Position {
    fn position(&self) -> (u32, &str, &[u8]);
}

/// A position that need not have an entry.
struct Sought<'q>(u32, &'q str, &'q [u8]);

impl Position for Sought<'_> {
    fn position(&self) -> (u32, &str, &[u8]) {
        (self.0, self.1, self.2)
    }
}

impl Position for Entry {
    fn position(&self) -> (u32, &str, &[u8]) {
        let value = self.object.attributes().field(self.place as usize);
        (self.place, value, self.object.key())
    }
}

impl<'q> Borrow<dyn Position + 'q> for Entry {
    fn borrow(&self) -> &(dyn Position + 'q) {
        self
    }
}

impl PartialEq for dyn Position + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

impl Eq for dyn Position + '_ {}

impl PartialOrd for dyn Position + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Position + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.position() == other.position()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl FieldIndex {
    /// An empty index of these fields.
    pub(super) fn of(places: Vec<u32>) -> FieldIndex {
        FieldIndex {
            places: places.into(),
            entries: OrdSet::new(),
        }
    }

    /// The fields.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    /// An object has taken the place of another one with its key, or of nothing.
    pub(super) fn put(&mut self, object: &Arc<CachedObject>, replaced: Option<&Arc<CachedObject>>) {
        for place in self.places.iter().copied() {
            let value = object.attributes().field(place as usize);
            let has_left =
                |old: &&Arc<CachedObject>| old.attributes().field(place as usize) != value;
            if let Some(old) = replaced.filter(has_left) {
                remove(&mut self.entries, old, place);
            }
            if !value.is_empty() {
                let object = Arc::clone(object);
                self.entries.insert(Entry { object, place });
            }
        }
    }

    /// An object was removed.
    pub(super) fn remove(&mut self, removed: &Arc<CachedObject>) {
        for place in self.places.iter().copied() {
            remove(&mut self.entries, removed, place);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether both hold the same objects.
    #[cfg(test)]
    pub(super) fn same(&self, other: &FieldIndex) -> bool {
        let objects = |index: &FieldIndex| -> Vec<_> {
            let entries = index.entries.iter();
            entries.map(|entry| Arc::as_ptr(&entry.object)).collect()
        };
        objects(self) == objects(other)
    }

    /// The objects that have this value, in key order, from a key on.
    pub(super) fn having<'i>(
        &'i self,
        place: u32,
        value: &'i str,
        from: &[u8],
    ) -> impl Iterator<Item = &'i Arc<CachedObject>> + use<'i> {
        let from = Sought(place, value, from);
        let from: &dyn Position = &from;
        self.entries
            .range::<_, dyn Position>((Bound::Included(from), Bound::Unbounded))
            .take_while(move |entry| {
                let (entry_place, entry_value, _) = entry.position();
                entry_place == place && entry_value == value
            })
            .map(|entry| &entry.object)
    }
}

fn remove(entries: &mut OrdSet<Entry>, object: &Arc<CachedObject>, place: u32) {
    let value = object.attributes().field(place as usize);
    if !value.is_empty() {
        let position = Sought(place, value, object.key());
        let position: &dyn Position = &position;
        entries.remove(position);
    }
}
