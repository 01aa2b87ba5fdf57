//! The stores that a rewrite goes through.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::underlying::Underlying;

/// A store whose values are rewritten.
pub struct RewrittenStore {
    /// Its resource, `secrets` or `deployments.apps`.
    pub resource: String,
    /// The back end that keeps it.
    pub back_end: String,
    /// The store itself.
    pub store: Underlying,
}

/// The stores of all resources that are served now. Clones share the same list.
#[derive(Clone, Default)]
pub struct RewrittenStores {
    stores: Arc<Mutex<Vec<Arc<RewrittenStore>>>>,
}

impl RewrittenStores {
    /// Adds a store. It replaces one of the same resource.
    pub fn add(&self, store: RewrittenStore) {
        let mut stores = self.stores.lock();
        stores.retain(|other| other.resource != store.resource);
        stores.push(Arc::new(store));
    }

    /// Removes the store of a resource.
    pub fn remove(&self, resource: &str) {
        self.stores
            .lock()
            .retain(|store| store.resource != resource);
    }

    /// The stores of this moment.
    pub fn current(&self) -> Vec<Arc<RewrittenStore>> {
        self.stores.lock().clone()
    }
}
