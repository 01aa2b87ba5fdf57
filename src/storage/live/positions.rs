//! The newest durable revision, and that of each prefix somebody has asked about (ST-70, PF-28).

use std::collections::HashMap;

use actors::engine::{Event, Position, Prefix, Revision};
use parking_lot::RwLock;

use super::directories;

/// Prefixes remembered; one per resource is asked for, so this leaves room for many CRDs.
const PREFIXES_MAX: usize = 4096;

/// How far the store and its prefixes have come; asked without I/O by every consistent read.
///
/// A prefix is followed from the first question about it on. Its answer is then the revision of
/// its last event since, or the store's revision at that first question: everything the prefix
/// had until then lies at or before it.
#[derive(Debug, Default)]
pub struct Positions {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    revision: Revision,
    /// By prefix; all end in a slash, so that an event finds its own by the slashes of its key.
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

    /// The position of a prefix. One that can't be followed (no slash at its end, or too many of
    /// them) is said to be where the store is, which is always true and only less sharp.
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

    /// Takes note of durable events, in order. Readers see all of them or none.
    pub fn publish(&self, events: &[Event]) {
        let mut inner = self.inner.write();
        for event in events {
            for directory in directories(event.key.as_bytes()) {
                if let Some(last) = inner.prefixes.get_mut(directory) {
                    *last = event.revision;
                }
            }
            inner.revision = inner.revision.max(event.revision);
        }
    }
}
