//! The newest known values of contended keys, as the holders of turns have left them. Pure.

use std::collections::{HashMap, VecDeque};

use crate::engine::{Key, KeyValue};

/// The most keys that are remembered.
const KEYS_MAX: usize = 256;
/// The most bytes of values that one shard remembers.
const BYTES_MAX: usize = 1 << 20;

/// The newest known values of the keys that had turns last. The oldest are forgotten first. A value
/// may be stale when it is used: it is only a hint.
#[derive(Debug, Default)]
pub(super) struct LastOutcomes {
    by_key: HashMap<Key, KeyValue>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl LastOutcomes {
    /// The newest known value of a key.
    pub(super) fn of(&self, key: &Key) -> Option<KeyValue> {
        self.by_key.get(key).cloned()
    }

    /// Remembers the value of a key, unless a newer one is known. The key is scoped by its store.
    pub(super) fn remember(&mut self, key: &Key, outcome: KeyValue) {
        let known = self.by_key.get(key);
        if known.is_some_and(|known| known.revision >= outcome.revision) {
            return;
        }
        self.forget(key);
        self.bytes += outcome.value.len();
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
            self.bytes -= forgotten.value.len();
            self.order.retain(|known| known != key);
        }
    }
}
