//! An immutable picture of one resource, which readers hold without asking anybody.
//!
//! The Cacher publishes one per batch of events. Objects are shared with the pictures before and
//! after it; the set is a persistent tree, so that a new picture costs a few nodes and not a copy.

use std::borrow::Borrow;
use std::cmp::Ordering;
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

/// The objects of one resource at one revision; cheap to hold, never changes (LI-37, WC-20).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Everything of this resource up to here is in it, and nothing newer.
    pub revision: Revision,
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
            objects,
            bytes,
            // Not known any better: the newest event before the list may have been a delete.
            last_event: revision,
            unreadable: OrdMap::new(),
        }
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

    /// The first value under a prefix that can't be read, from `start` on (inclusive) and up to
    /// `last` (inclusive), where given.
    pub fn first_unreadable(
        &self,
        prefix: &Prefix,
        start: Option<&[u8]>,
        last: Option<&Key>,
    ) -> Option<&Arc<DecodeError>> {
        if self.unreadable.is_empty() {
            return None;
        }
        let from = start.map_or(prefix.as_bytes(), |start| start.max(prefix.as_bytes()));
        let mut rest = self
            .unreadable
            .range::<_, [u8]>((Bound::Included(from), Bound::Unbounded));
        let (key, error) = rest.next()?;
        (prefix.covers(key) && last.is_none_or(|last| key <= last)).then_some(error)
    }

    /// How many values can't be read.
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects under a prefix in order of their keys, from `start` on (inclusive) if given.
    pub fn range<'a>(
        &'a self,
        prefix: &'a Prefix,
        start: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<CachedObject>> + 'a {
        let from = start.map_or(prefix.as_bytes(), |start| start.max(prefix.as_bytes()));
        self.objects
            .range::<_, [u8]>((Bound::Included(from), Bound::Unbounded))
            .map(|filed| &filed.0)
            .take_while(move |object| prefix.covers(&object.key))
    }

    /// How many objects [`Snapshot::range`] would give (`remainingItemCount`, LI-40).
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
