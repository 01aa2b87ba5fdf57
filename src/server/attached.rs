//! Values that are derived from shared objects, and are kept as long as those live.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Up to this many entries, those of dropped objects are not searched for.
const PRUNED_AT_LEAST: usize = 64;

/// A value for each object of one type. An object that two generations share has the same value in
/// both. Values of dropped objects are pruned.
pub struct Attached<K, V> {
    known: Mutex<Known<K, V>>,
}

struct Known<K, V> {
    /// Entries by the object's address. The weak reference keeps the allocation, so that no other
    /// object can get the address.
    by_address: HashMap<usize, (Weak<K>, Arc<V>)>,
    pruned_at: usize,
}

impl<K, V> Default for Attached<K, V> {
    fn default() -> Attached<K, V> {
        Attached {
            known: Mutex::new(Known {
                by_address: HashMap::new(),
                pruned_at: PRUNED_AT_LEAST,
            }),
        }
    }
}

impl<K, V: Default> Attached<K, V> {
    /// Returns the value of this object. The first call creates it.
    pub fn of(&self, object: &Arc<K>) -> Arc<V> {
        let mut known = self.known.lock();
        let address = Arc::as_ptr(object).addr();
        if let Some((_, value)) = known.by_address.get(&address) {
            return Arc::clone(value);
        }
        if known.by_address.len() >= known.pruned_at {
            known
                .by_address
                .retain(|_, (object, _)| object.strong_count() > 0);
            known.pruned_at = PRUNED_AT_LEAST.max(2 * known.by_address.len());
        }
        let value = Arc::default();
        let entry = (Arc::downgrade(object), Arc::clone(&value));
        known.by_address.insert(address, entry);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_a_value_of_its_own_as_long_as_it_lives() {
        let attached: Attached<u32, Mutex<u32>> = Attached::default();
        let (one, other) = (Arc::new(1), Arc::new(1));
        let of_one = attached.of(&one);
        assert!(Arc::ptr_eq(&of_one, &attached.of(&Arc::clone(&one))));
        assert!(!Arc::ptr_eq(&of_one, &attached.of(&other)));
        for number in 0..10 * PRUNED_AT_LEAST as u32 {
            attached.of(&Arc::new(number));
        }
        assert!(attached.known.lock().by_address.len() <= PRUNED_AT_LEAST + 2);
        assert!(Arc::ptr_eq(&of_one, &attached.of(&one)));
    }
}
