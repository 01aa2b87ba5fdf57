//! An immutable snapshot of one resource, which readers use without a lock.
//!
//! The Cacher publishes one for each batch of events. It shares objects with the snapshots before
//! and after it. The set of objects is a persistent tree, so a new snapshot costs a few nodes and
//! not a copy.

mod field_index;
mod namespace_counts;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::engine::{Key, Prefix, Revision};
use crate::object::{CachedObject, DecodeError};
use crate::watch::Predicate;
use field_index::FieldIndex;
use namespace_counts::NamespaceCounts;

/// An object ordered by its own key. So the tree holds one pointer for each object and no second
/// key.
#[derive(Clone, Debug)]
struct ByKey(Arc<CachedObject>);

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &ByKey) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &ByKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &ByKey) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

/// The value under a key: an object, or why it can't be decoded. The reader decides how to handle
/// the latter.
pub type Stored<'a> = Result<&'a Arc<CachedObject>, &'a Arc<DecodeError>>;

/// The objects of one resource at one revision. It is cheap to hold and never changes (LI-37,
/// WC-20).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// It shows everything of the resource up to this revision, and nothing newer.
    pub revision: Revision,
    /// The epoch of the store. Equal revisions of different epochs are different states.
    pub epoch: u64,
    objects: OrdSet<ByKey>,
    namespaces: NamespaceCounts,
    fields: FieldIndex,
    bytes: u64,
    pub(crate) last_event: Revision,
    /// The values that can't be decoded. They are not among the objects. A request for one of them,
    /// or for a list that it belongs to, must fail.
    pub(crate) unreadable: OrdMap<Key, Arc<DecodeError>>,
}

impl Snapshot {
    /// A snapshot of these objects at a revision. It is built fastest if they are in key order.
    pub fn of(
        objects: impl IntoIterator<Item = Arc<CachedObject>>,
        revision: Revision,
    ) -> Snapshot {
        let objects: OrdSet<ByKey> = objects.into_iter().map(ByKey).collect();
        let bytes = objects
            .iter()
            .map(|entry| entry.0.item_body().len() as u64)
            .sum();
        Snapshot {
            revision,
            epoch: 0,
            namespaces: NamespaceCounts::of(objects.iter().map(|entry| entry.0.key())),
            fields: FieldIndex::default(),
            objects,
            bytes,
            // The true value is unknown: the newest event before the list may have been a delete.
            last_event: revision,
            unreadable: OrdMap::new(),
        }
    }

    /// The same snapshot, with its objects indexed by these fields. So are later objects.
    pub fn indexed_by(mut self, places: Vec<u32>) -> Snapshot {
        self.fields = FieldIndex::of(places);
        if !self.fields.places().is_empty() {
            for entry in &self.objects {
                self.fields.put(&entry.0, None);
            }
        }
        self
    }

    /// The same snapshot, read from a store of this epoch.
    pub(crate) fn of_epoch(self, epoch: u64) -> Snapshot {
        Snapshot { epoch, ..self }
    }

    /// The same snapshot with these values, which can't be decoded.
    pub(crate) fn with_unreadable(
        self,
        unreadable: impl IntoIterator<Item = (Key, Arc<DecodeError>)>,
    ) -> Snapshot {
        Snapshot {
            unreadable: unreadable.into_iter().collect(),
            ..self
        }
    }

    /// Puts an object in the place of the one at its key, which is returned.
    pub(crate) fn insert(&mut self, object: Arc<CachedObject>) -> Option<Arc<CachedObject>> {
        self.bytes += object.item_body().len() as u64;
        let replaced = self.objects.insert(ByKey(Arc::clone(&object)));
        let replaced = replaced.map(|entry| entry.0);
        self.fields.put(&object, replaced.as_ref());
        match &replaced {
            Some(replaced) => self.bytes -= replaced.item_body().len() as u64,
            None => self.namespaces.added(object.key()),
        }
        replaced
    }

    /// Removes the object at a key, and returns it.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<CachedObject>> {
        let removed = self.objects.remove(key)?.0;
        self.bytes -= removed.item_body().len() as u64;
        self.namespaces.removed(key);
        self.fields.remove(&removed);
        Some(removed)
    }

    /// The revision of the newest event that it shows, deletes included. Nothing of the resource
    /// happened between it and `revision`. So the snapshot answers an exact list at any revision
    /// from this one up to `revision`.
    pub fn last_event(&self) -> Revision {
        self.last_event
    }

    /// The object under a key.
    pub fn get(&self, key: &Key) -> Option<&Arc<CachedObject>> {
        self.objects.get(key.as_bytes()).map(|entry| &entry.0)
    }

    /// Why the value of a key can't be decoded, if it can't.
    pub fn unreadable(&self, key: &Key) -> Option<&Arc<DecodeError>> {
        self.unreadable.get(key)
    }

    /// The first value under a prefix that can't be decoded.
    pub fn first_unreadable<'a>(&'a self, prefix: &'a Prefix) -> Option<&'a Arc<DecodeError>> {
        let mut unreadable = self.unreadable_from(prefix, prefix.as_bytes());
        unreadable.next().map(|(_, error)| error)
    }

    fn unreadable_from<'a>(
        &'a self,
        prefix: &'a Prefix,
        from: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<DecodeError>)> + use<'a> {
        self.unreadable
            .range::<_, [u8]>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| prefix.covers(key))
    }

    /// The number of values that can't be decoded.
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }

    /// The number of stored values, whether or not they can be decoded.
    pub fn stored(&self) -> usize {
        self.objects.len() + self.unreadable.len()
    }

    /// The number of stored values below a prefix that ends in a slash. It does not visit them.
    pub fn stored_below(&self, prefix: &Prefix) -> u64 {
        let unreadable = self.unreadable_from(prefix, prefix.as_bytes()).count();
        self.namespaces.below(prefix) + unreadable as u64
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The values under a prefix in key order, from `start` on (inclusive) if given.
    pub fn range<'a>(
        &'a self,
        prefix: &'a Prefix,
        start: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Stored<'a>> + 'a {
        let from = start.map_or(prefix.as_bytes(), |start| start.max(prefix.as_bytes()));
        self.merged(self.objects_from(from), prefix, from)
    }

    /// The values that [`Snapshot::range`] returns, except for objects that an index shows not to
    /// be selected. The caller must evaluate the predicate all the same.
    pub fn candidates<'a>(
        &'a self,
        prefix: &'a Prefix,
        start: Option<&'a [u8]>,
        predicate: &'a dyn Predicate,
    ) -> impl Iterator<Item = Stored<'a>> + 'a {
        let from = start.map_or(prefix.as_bytes(), |start| start.max(prefix.as_bytes()));
        // Objects without a value are not in the index.
        let demanded = self.fields.places().iter().find_map(|place| {
            let value = predicate.demanded_value(*place as usize)?;
            (!value.is_empty()).then_some((*place, value))
        });
        let objects: Box<dyn Iterator<Item = _> + Send + 'a> = match demanded {
            Some((place, value)) => Box::new(self.fields.having(place, value, from)),
            None => Box::new(self.objects_from(from)),
        };
        self.merged(objects, prefix, from)
    }

    fn objects_from<'a>(
        &'a self,
        from: &[u8],
    ) -> impl Iterator<Item = &'a Arc<CachedObject>> + use<'a> {
        self.objects
            .range::<_, [u8]>((Bound::Included(from), Bound::Unbounded))
            .map(|entry| &entry.0)
    }

    /// Those of the objects that are under the prefix, and the values there that can't be decoded.
    fn merged<'a>(
        &'a self,
        objects: impl Iterator<Item = &'a Arc<CachedObject>> + 'a,
        prefix: &'a Prefix,
        from: &'a [u8],
    ) -> impl Iterator<Item = Stored<'a>> + 'a {
        let mut objects = objects
            .take_while(move |object| prefix.covers(object.key()))
            .peekable();
        let mut unreadable = self.unreadable_from(prefix, from).peekable();
        iter::from_fn(move || {
            let object = objects.peek();
            let is_next =
                |unreadable: &(&Key, _)| object.is_none_or(|o| unreadable.0.as_bytes() < o.key());
            match unreadable.next_if(is_next) {
                Some((_, error)) => Some(Err(error)),
                None => objects.next().map(Ok),
            }
        })
    }

    /// The mean size of an object in wire form; 0 if there is none (ST-74).
    pub fn average_bytes(&self) -> u64 {
        self.bytes
            .checked_div(self.objects.len() as u64)
            .unwrap_or(0)
    }
}
