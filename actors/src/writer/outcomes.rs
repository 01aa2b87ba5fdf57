//! What the holders of turns have left at hot keys: where the next one may start. Pure.

use std::collections::{HashMap, VecDeque};

use crate::engine::{Key, KeyValue};

/// Keys that are remembered.
const KEYS_MAX: usize = 256;
/// Bytes of values that are remembered, in one shard.
const BYTES_MAX: usize = 1 << 20;

/// The newest known value of the keys whose turns were given last; the oldest are forgotten
/// first. A value may be stale by the time it is used, so it is a suggestion and no more.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    by_key: HashMap<Key, KeyValue>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Outcomes {
    /// The newest known value of a key.
    pub(super) fn of(&self, key: &Key) -> Option<KeyValue> {
        self.by_key.get(key).cloned()
    }

    /// Remembers the value left at a key, unless a newer one is known. The key is that of the
    /// turn, which tells stores apart.
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
