//! An immutable picture of one resource, which readers hold without asking anybody.
//!
//! The Cacher publishes one per batch of events. Objects are shared with the pictures before and
//! after it; the set is a persistent tree, so that a new picture costs a few nodes and not a copy.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::engine::{Key, Prefix, Revision};
use crate::object::{CachedObject, DecodeError};

/// An object filed under its own key: the tree holds one pointer to an object and no second key.
#[derive(Clone, Debug)]
pub(crate) struct Filed(pub(crate) Arc<CachedObject>);

impl Borrow<[u8]> for Filed {
    fn borrow(&self) -> &[u8] {
        self.0.key.as_bytes()
    }
}

impl PartialEq for Filed {
    fn eq(&self, other: &Filed) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Filed {}

impl PartialOrd for Filed {
    fn partial_cmp(&self, other: &Filed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Filed {
    fn cmp(&self, other: &Filed) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

/// What is stored under a key: an object, or why it can't be read. Whoever lists decides about
/// both.
pub type Stored<'a> = Result<&'a Arc<CachedObject>, &'a Arc<DecodeError>>;

/// The objects of one resource at one revision; cheap to hold, never changes (LI-37, WC-20).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Everything of this resource up to here is in it, and nothing newer.
    pub revision: Revision,
    /// The epoch of the store that it shows: a revision of another one is another state.
    pub epoch: u64,
    pub(crate) objects: OrdSet<Filed>,
    pub(crate) bytes: u64,
    pub(crate) last_event: Revision,
    /// What is stored and can't be read. It is not among the objects, and whoever asks for it, or
    /// for a list that it belongs to, must be told so.
    pub(crate) unreadable: OrdMap<Key, Arc<DecodeError>>,
}

impl Snapshot {
    /// All objects of a resource as they were at a revision; quickest in order of their keys.
    pub fn of(
        objects: impl IntoIterator<Item = Arc<CachedObject>>,
        revision: Revision,
    ) -> Snapshot {
        let objects: OrdSet<Filed> = objects.into_iter().map(Filed).collect();
        let bytes = objects.iter().map(|filed| filed.0.wire.len() as u64).sum();
        Snapshot {
            revision,
            epoch: 0,
            objects,
            bytes,
            // Not known any better: the newest event before the list may have been a delete.
            last_event: revision,
            unreadable: OrdMap::new(),
        }
    }

    /// As read from a store of this epoch.
    pub(crate) fn of_epoch(self, epoch: u64) -> Snapshot {
        Snapshot { epoch, ..self }
    }

    /// With these values, which are stored and can't be read.
    pub(crate) fn with_unreadable(
        self,
        unreadable: impl IntoIterator<Item = (Key, Arc<DecodeError>)>,
    ) -> Snapshot {
        Snapshot {
            unreadable: unreadable.into_iter().collect(),
            ..self
        }
    }

    /// The revision of the newest event of the resource that it shows, deletes included. Nothing
    /// of the resource happened between it and `revision`, so that a snapshot answers an exact
    /// list at any revision from here up to `revision`.
    pub fn last_event(&self) -> Revision {
        self.last_event
    }

    /// The object under a key.
    pub fn get(&self, key: &Key) -> Option<&Arc<CachedObject>> {
        self.objects.get(key.as_bytes()).map(|filed| &filed.0)
    }

    /// Why what is stored under a key can't be read.
    pub fn unreadable(&self, key: &Key) -> Option<&Arc<DecodeError>> {
        self.unreadable.get(key)
    }

    /// The first value under a prefix that can't be read.
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

    /// How many values can't be read.
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }

    /// How many values are stored, whether or not they can be read.
    pub fn stored(&self) -> usize {
        self.objects.len() + self.unreadable.len()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What is stored under a prefix in order of the keys, from `start` on (inclusive) if given.
    pub fn range<'a>(
        &'a self,
        prefix: &'a Prefix,
        start: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Stored<'a>> + 'a {
        let from = start.map_or(prefix.as_bytes(), |start| start.max(prefix.as_bytes()));
        let mut objects = self
            .objects
            .range::<_, [u8]>((Bound::Included(from), Bound::Unbounded))
            .map(|filed| &filed.0)
            .take_while(move |object| prefix.covers(&object.key))
            .peekable();
        let mut unreadable = self.unreadable_from(prefix, from).peekable();
        iter::from_fn(move || {
            let object = objects.peek();
            let is_next = |unreadable: &(&Key, _)| object.is_none_or(|o| *unreadable.0 < o.key);
            match unreadable.next_if(is_next) {
                Some((_, error)) => Some(Err(error)),
                None => objects.next().map(Ok),
            }
        })
    }

    /// How many values [`Snapshot::range`] would give (`remainingItemCount`, LI-40).
    pub fn count(&self, prefix: &Prefix, start: Option<&[u8]>) -> usize {
        self.range(prefix, start).count()
    }

    /// The mean size of an object in wire form, 0 when there is none (ST-74).
    pub fn average_bytes(&self) -> u64 {
        self.bytes
            .checked_div(self.objects.len() as u64)
            .unwrap_or(0)
    }
}
