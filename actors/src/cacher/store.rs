//! The current objects of one resource, and what each update changes about them. Pure.

use std::sync::Arc;

use crate::engine::{Key, Revision};
use crate::object::{CachedObject, DecodeError};
use crate::ring::Change;
use crate::snapshot::{Filed, Snapshot};

/// A decoded event.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    pub(crate) content: Content,
}

/// What an event left at its key.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// An object.
    Object(Arc<CachedObject>),
    /// Nothing.
    Gone,
    /// Something that can't be read.
    Unreadable(Arc<DecodeError>),
}

/// What came of an event.
#[derive(Clone, Debug)]
pub(crate) enum Applied {
    /// A change that can be shown.
    Change(Revision, Change),
    /// What was before it, or what is after it, can't be read: nobody here can say what the event
    /// means to a watcher, and only the store's history has it.
    Break(Revision),
}

/// See the module's documentation. It is a snapshot that may still change: publishing one is a
/// clone that shares all nodes.
#[derive(Debug, Default)]
pub(crate) struct Store {
    current: Snapshot,
}

impl Store {
    /// Other content takes the place of this one (WC-5), which is given back.
    pub(crate) fn replace(&mut self, content: Snapshot) -> Snapshot {
        std::mem::replace(&mut self.current, content)
    }

    /// Everything up to here is in it.
    pub(crate) fn revision(&self) -> Revision {
        self.current.revision
    }

    /// The epoch of the store that it was read from.
    pub(crate) fn epoch(&self) -> u64 {
        self.current.epoch
    }

    /// What is published.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.current.clone()
    }

    /// Takes in updates up to a revision, and says what each of them changed.
    ///
    /// What it has seen already is passed over, so that a resumed feed may overlap. An update of
    /// an unknown key is a creation, its deletion nothing (WC-47).
    pub(crate) fn apply(&mut self, updates: Vec<Update>, up_to: Revision) -> Vec<Applied> {
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

    fn apply_one(&mut self, update: Update) -> Option<Applied> {
        let Update {
            revision,
            key,
            content,
        } = update;
        let was_unreadable = self.current.unreadable.remove(&key).is_some();
        let (current, is_unreadable) = match content {
            Content::Object(object) => (Some(object), false),
            Content::Gone => (None, false),
            Content::Unreadable(error) => {
                self.current.unreadable.insert(key.clone(), error);
                (None, true)
            }
        };
        let previous = match &current {
            Some(object) => self.current.objects.insert(Filed(Arc::clone(object))),
            None => self.current.objects.remove(key.as_bytes()),
        };
        let previous = previous.map(|filed| filed.0);
        self.current.bytes += wire_bytes(current.as_ref());
        self.current.bytes -= wire_bytes(previous.as_ref());
        if was_unreadable || is_unreadable {
            self.current.last_event = revision;
            return Some(Applied::Break(revision));
        }
        if current.is_none() && previous.is_none() {
            return None;
        }
        self.current.last_event = revision;
        let change = Change {
            key,
            current,
            previous,
        };
        Some(Applied::Change(revision, change))
    }
}

fn wire_bytes(object: Option<&Arc<CachedObject>>) -> u64 {
    object.map_or(0, |object| object.wire.len() as u64)
}
