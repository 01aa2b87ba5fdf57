//! The newest durable revision, and that of each prefix somebody has asked about (ST-70, PF-28).

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::engine::{Event, Position, Prefix, Revision};

/// Prefixes followed. One per resource is asked for: there is room for many CRDs.
const PREFIXES_MAX: usize = 4096;

/// How far the store and its prefixes have come. Every consistent read asks, without I/O.
///
/// A prefix is followed from the first question about it on. Its position is then the revision of
/// its last event since, or the store's revision at that first question: every event that the
/// prefix had until then lies at or before it.
#[derive(Debug, Default)]
pub struct Positions {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    revision: Revision,
    /// By prefix. All end in a slash, so that an event finds its own by the slashes of its key.
    prefixes: HashMap<Box<[u8]>, Revision>,
}

impl Positions {
    /// A store that stands at this revision.
    pub fn new(revision: Revision) -> Positions {
        let inner = Inner {
            revision,
            prefixes: HashMap::new(),
        };
        Positions {
            inner: RwLock::new(inner),
        }
    }

    /// The newest durable revision.
    pub fn revision(&self) -> Revision {
        self.inner.read().revision
    }

    /// The position of a prefix. A prefix that can't be followed (it does not end in a slash, or
    /// too many are followed) stands where the store is, which is true and less precise.
    pub fn of(&self, prefix: &Prefix) -> Position {
        {
            let inner = self.inner.read();
            if let Some(known) = inner.prefixes.get(prefix.as_bytes()) {
                return Position {
                    revision: inner.revision,
                    prefix_revision: *known,
                };
            }
        }
        let mut inner = self.inner.write();
        let revision = inner.revision;
        if prefix.as_bytes().ends_with(b"/") && inner.prefixes.len() < PREFIXES_MAX {
            inner
                .prefixes
                .entry(prefix.as_bytes().into())
                .or_insert(revision);
        }
        let known = inner.prefixes.get(prefix.as_bytes());
        Position {
            revision,
            prefix_revision: known.copied().unwrap_or(revision),
        }
    }

    /// Publishes durable events, in order. Readers see all of them or none.
    pub fn publish(&self, events: &[Event]) {
        let mut inner = self.inner.write();
        for event in events {
            for directory in event.key.directories() {
                if let Some(last) = inner.prefixes.get_mut(directory) {
                    *last = event.revision;
                }
            }
            inner.revision = inner.revision.max(event.revision);
        }
    }
}
