//! The turns of those who write.
//!
//! etcd decides transactions one after the other. Here a mutation names the revision that it
//! replaces, and whoever has read that revision holds the turn of the key until its mutation is
//! decided. Transactions over several keys, and the end of leases, take the turns of all keys.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The turns of this many keys are distinct, if their hashes are.
const SHARDS: usize = 128;

/// All turns.
pub(super) struct Turns {
    all: RwLock<()>,
    shards: [Mutex<()>; SHARDS],
    hasher: RandomState,
}

/// A turn that is held.
pub(super) enum Turn<'t> {
    /// That of one key.
    OfKey {
        /// Keeps turns of all keys away.
        _shared: RwLockReadGuard<'t, ()>,
        /// Keeps others away from the key.
        _key: MutexGuard<'t, ()>,
    },
    /// Those of all keys.
    OfAll {
        /// Keeps everybody away.
        _all: RwLockWriteGuard<'t, ()>,
    },
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            all: RwLock::new(()),
            shards: std::array::from_fn(|_| Mutex::new(())),
            hasher: RandomState::new(),
        }
    }
}

impl Turns {
    /// Waits for the turn of a key.
    pub(super) async fn of_key(&self, key: &[u8]) -> Turn<'_> {
        let number = self.hasher.hash_one(key) as usize % SHARDS;
        let Some(shard) = self.shards.get(number) else {
            return self.of_all().await;
        };
        let shared = self.all.read().await;
        Turn::OfKey {
            _shared: shared,
            _key: shard.lock().await,
        }
    }

    /// Waits for the turns of all keys.
    pub(super) async fn of_all(&self) -> Turn<'_> {
        Turn::OfAll {
            _all: self.all.write().await,
        }
    }
}
