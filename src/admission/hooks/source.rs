//! The configurations of hooks as the daemon obeys them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// All objects of one kind of configuration, by name, in one state of the store.
#[derive(Debug)]
pub struct Hooks<V> {
    /// A number that increases with each change.
    pub generation: u64,
    /// The objects as they were read, in the order of their names.
    pub by_name: BTreeMap<String, Arc<V>>,
}

impl<V> Default for Hooks<V> {
    fn default() -> Hooks<V> {
        Hooks {
            generation: 0,
            by_name: BTreeMap::new(),
        }
    }
}

impl<V> Clone for Hooks<V> {
    fn clone(&self) -> Hooks<V> {
        Hooks {
            generation: self.generation,
            by_name: self.by_name.clone(),
        }
    }
}

/// The objects of one kind of configuration. A write of such an object counts for the next request
/// after its acknowledgement (HK-18).
pub trait HookSource<V>: Send + Sync + 'static {
    /// Returns the newest state, or `None` until the first one is known.
    fn newest(&self) -> Option<Arc<Hooks<V>>>;

    /// Waits until the first state is known, for some time at most.
    fn filled(&self) -> BoxFuture<'_, ()>;
}
