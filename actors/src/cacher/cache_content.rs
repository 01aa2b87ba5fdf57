//! The current objects of one resource, and what each update changes. Pure.

use std::sync::Arc;

use crate::engine::{Key, Revision};
use crate::object::{CachedObject, DecodeError};
use crate::ring::ObjectChange;
use crate::snapshot::Snapshot;

/// A decoded event.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    pub(crate) value: NewValue,
}

/// The value that an event left at its key.
#[derive(Clone, Debug)]
pub(crate) enum NewValue {
    /// An object.
    Object(Arc<CachedObject>),
    /// Nothing: it was deleted.
    Deleted,
    /// A value that can't be decoded.
    Unreadable(Arc<DecodeError>),
}

/// The effect of an update.
#[derive(Clone, Debug)]
pub(crate) enum AppliedUpdate {
    /// A change that watchers can be shown.
    Change(Revision, ObjectChange),
    /// The value before or after the event can't be decoded. The ring can't hold the event, and
    /// watchers must read history to get past it.
    Gap(Revision),
}

/// The current objects of one resource. It is a snapshot that may still change. A published
/// snapshot is a clone that shares all nodes with it.
#[derive(Debug, Default)]
pub(crate) struct CacheContent {
    current: Snapshot,
}

impl CacheContent {
    /// Replaces the content (WC-5) and returns what it was.
    pub(crate) fn replace(&mut self, content: Snapshot) -> Snapshot {
        std::mem::replace(&mut self.current, content)
    }

    /// Everything up to here is in the content.
    pub(crate) fn revision(&self) -> Revision {
        self.current.revision
    }

    /// The epoch of the store that the content was read from.
    pub(crate) fn epoch(&self) -> u64 {
        self.current.epoch
    }

    /// A snapshot to publish.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.current.clone()
    }

    /// Applies updates up to a revision, and returns what they changed.
    ///
    /// Updates that were applied before are skipped, so a resumed feed may overlap. An update of an
    /// unknown key is a creation. The deletion of an unknown key changes nothing (WC-47).
    pub(crate) fn apply(&mut self, updates: Vec<Update>, up_to: Revision) -> Vec<AppliedUpdate> {
        let seen = self.current.revision;
        let mut changes = Vec::with_capacity(updates.len());
        for update in updates {
            if update.revision > seen {
                changes.extend(self.apply_one(update));
            }
        }
        self.current.revision = seen.max(up_to);
        changes
    }

    fn apply_one(&mut self, update: Update) -> Option<AppliedUpdate> {
        let Update {
            revision,
            key,
            value,
        } = update;
        let was_unreadable = self.current.unreadable.remove(&key).is_some();
        let (current, is_unreadable) = match value {
            NewValue::Object(object) => (Some(object), false),
            NewValue::Deleted => (None, false),
            NewValue::Unreadable(error) => {
                self.current.unreadable.insert(key.clone(), error);
                (None, true)
            }
        };
        let previous = match &current {
            Some(object) => self.current.insert(Arc::clone(object)),
            None => self.current.remove(key.as_bytes()),
        };
        if was_unreadable || is_unreadable {
            self.current.last_event = revision;
            return Some(AppliedUpdate::Gap(revision));
        }
        if current.is_none() && previous.is_none() {
            return None;
        }
        self.current.last_event = revision;
        let change = ObjectChange { current, previous };
        Some(AppliedUpdate::Change(revision, change))
    }
}
