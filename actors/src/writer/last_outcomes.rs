//! The states that holders of turns have left at contended keys. Pure.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Key, KeyValue, Revision, Ticket};
use crate::object::CachedObject;

/// The most keys that are remembered.
const KEYS_MAX: usize = 256;
/// The most bytes of values that one shard remembers.
const BYTES_MAX: usize = 1 << 20;

/// The state that the holder of a turn has left at its key. It may be outdated, so it is only a
/// hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastOutcome {
    /// A value that is durable.
    Durable(KeyValue),
    /// An object whose mutation was queued.
    Queued(QueuedObject),
}

/// An object that is stored when its ticket says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedObject {
    /// Reports when it is durable, and at which revision.
    pub ticket: Ticket,
    /// The object. Its revision is not known yet, so the one that it shows means nothing.
    pub object: Arc<CachedObject>,
    /// Its stored bytes before they are transformed.
    pub plain: Bytes,
}

impl LastOutcome {
    fn bytes(&self) -> usize {
        match self {
            LastOutcome::Durable(item) => item.value.len(),
            LastOutcome::Queued(queued) => queued.object.size() + queued.plain.len(),
        }
    }

    /// Whether this says more than a durable value of that revision.
    fn is_newer_than(&self, revision: Revision) -> bool {
        match self {
            LastOutcome::Durable(item) => item.revision >= revision,
            LastOutcome::Queued(QueuedObject { ticket, .. }) => match ticket.decided() {
                Some(decided) => decided >= revision,
                None => !ticket.is_settled(),
            },
        }
    }
}

/// The newest known states of the keys that had turns last. The oldest are forgotten first.
#[derive(Debug, Default)]
pub(super) struct LastOutcomes {
    by_key: HashMap<Key, LastOutcome>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl LastOutcomes {
    /// The newest known state of a key.
    pub(super) fn of(&self, key: &Key) -> Option<LastOutcome> {
        self.by_key.get(key).cloned()
    }

    /// Remembers the state of a key, unless a newer one is known. A queued state is newer than
    /// everything before. The key is scoped by its store.
    pub(super) fn remember(&mut self, key: &Key, outcome: LastOutcome) {
        if let LastOutcome::Durable(item) = &outcome
            && let Some(known) = self.by_key.get(key)
            && known.is_newer_than(item.revision)
        {
            return;
        }
        self.forget(key);
        self.bytes += outcome.bytes();
        self.order.push_back(key.clone());
        self.by_key.insert(key.clone(), outcome);
        while self.bytes > BYTES_MAX || self.order.len() > KEYS_MAX {
            let Some(oldest) = self.order.front().cloned() else {
                return;
            };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(forgotten) = self.by_key.remove(key) {
            self.bytes -= forgotten.bytes();
            self.order.retain(|known| known != key);
        }
    }
}
