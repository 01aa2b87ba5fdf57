//! Maps whose keys are hashes already, made with a key that nobody knows. Pure.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by a hash of something.
pub type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Prehashed>>;

/// Uses a hash as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
