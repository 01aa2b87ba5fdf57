//! The newest durable revision of the store, and of each prefix that was asked about (ST-70,
//! PF-28).

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::engine::{Event, Position, Prefix, Revision};

/// The most prefixes that are followed. There is one for each resource, with room for many CRDs.
const PREFIXES_MAX: usize = 4096;

/// The newest revisions of the store and of its prefixes. Every consistent read uses them, without
/// I/O.
///
/// A prefix is followed from the first request for its position on. Its position is the revision of
/// its last event since then. If there is none, it is the store's revision at that first request,
/// because all earlier events of the prefix are at or before it.
#[derive(Debug, Default)]
pub struct Positions {
    known_positions: RwLock<KnownPositions>,
}

#[derive(Debug, Default)]
struct KnownPositions {
    revision: Revision,
    /// By prefix. All prefixes end in a slash, so an event finds them by the slashes of its key.
    prefixes: HashMap<Box<[u8]>, Revision>,
}

impl Positions {
    /// The positions of a store at this revision.
    pub fn new(revision: Revision) -> Positions {
        let known_positions = KnownPositions {
            revision,
            prefixes: HashMap::new(),
        };
        Positions {
            known_positions: RwLock::new(known_positions),
        }
    }

    /// The newest durable revision.
    pub fn revision(&self) -> Revision {
        self.known_positions.read().revision
    }

    /// The position of a prefix. A prefix that can't be followed (it does not end in a slash, or
    /// too many are followed) gets the store's revision, which is correct and less precise.
    pub fn of(&self, prefix: &Prefix) -> Position {
        {
            let known_positions = self.known_positions.read();
            if let Some(known) = known_positions.prefixes.get(prefix.as_bytes()) {
                return Position {
                    revision: known_positions.revision,
                    prefix_revision: *known,
                };
            }
        }
        let mut known_positions = self.known_positions.write();
        let revision = known_positions.revision;
        if prefix.as_bytes().ends_with(b"/") && known_positions.prefixes.len() < PREFIXES_MAX {
            known_positions
                .prefixes
                .entry(prefix.as_bytes().into())
                .or_insert(revision);
        }
        let known = known_positions.prefixes.get(prefix.as_bytes());
        Position {
            revision,
            prefix_revision: known.copied().unwrap_or(revision),
        }
    }

    /// Publishes durable events, in order. Readers see all of them or none.
    pub fn publish(&self, events: &[Event]) {
        let mut known_positions = self.known_positions.write();
        for event in events {
            for directory in event.key.directories() {
                if let Some(last) = known_positions.prefixes.get_mut(directory) {
                    *last = event.revision;
                }
            }
            known_positions.revision = known_positions.revision.max(event.revision);
        }
    }
}
