//! The current objects of one resource, and what each update changes about them. Pure.

use std::sync::Arc;

use crate::engine::{Key, Revision};
use crate::object::CachedObject;
use crate::ring::Change;
use crate::snapshot::{Filed, Snapshot};

/// A decoded event.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    /// The new object; `None` for a deletion.
    pub(crate) object: Option<Arc<CachedObject>>,
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

    /// What is published.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.current.clone()
    }

    /// Takes in updates up to a revision, and says what each of them changed.
    ///
    /// What it has seen already is passed over, so that a resumed feed may overlap. An update of
    /// an unknown key is a creation, its deletion nothing (WC-47).
    pub(crate) fn apply(
        &mut self,
        updates: Vec<Update>,
        up_to: Revision,
    ) -> Vec<(Revision, Change)> {
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

    fn apply_one(&mut self, update: Update) -> Option<(Revision, Change)> {
        let previous = match &update.object {
            Some(object) => self.current.objects.insert(Filed(Arc::clone(object))),
            None => Some(self.current.objects.remove(update.key.as_bytes())?),
        };
        let previous = previous.map(|filed| filed.0);
        self.current.last_event = update.revision;
        self.current.bytes += wire_bytes(update.object.as_ref());
        self.current.bytes -= wire_bytes(previous.as_ref());
        Some((
            update.revision,
            Change {
                key: update.key,
                current: update.object,
                previous,
            },
        ))
    }
}

fn wire_bytes(object: Option<&Arc<CachedObject>>) -> u64 {
    object.map_or(0, |object| object.wire.len() as u64)
}
