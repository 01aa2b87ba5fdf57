//! The stores that a rewrite goes through.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::Engine;
use parking_lot::Mutex;

use crate::storage::underlying::Underlying;

/// A store whose values are rewritten.
pub struct RewrittenStore {
    /// Its resource, `secrets` or `deployments.apps`.
    pub resource: String,
    /// The back end that keeps it.
    pub back_end: String,
    /// The store itself.
    pub store: Arc<Underlying>,
    /// The `apiVersion` in which objects are stored, if their resource is a custom one.
    pub custom_version: Option<String>,
    /// The engine of the back end.
    pub engine: Arc<dyn Engine>,
}

/// The stores of all resources that are served now. Clones share the same list.
#[derive(Clone, Default)]
pub struct RewrittenStores {
    /// By their resources.
    stores: Arc<Mutex<BTreeMap<String, Arc<RewrittenStore>>>>,
}

impl RewrittenStores {
    /// Adds a store. It replaces one of the same resource.
    pub fn add(&self, store: RewrittenStore) {
        let mut stores = self.stores.lock();
        stores.insert(store.resource.clone(), Arc::new(store));
    }

    /// Removes the store of a resource.
    pub fn remove(&self, resource: &str) {
        self.stores.lock().remove(resource);
    }

    /// Returns whether all stores of this moment are among these.
    pub fn are_among(&self, stores: &[Arc<RewrittenStore>]) -> bool {
        let known: BTreeMap<&str, &Arc<RewrittenStore>> = stores
            .iter()
            .map(|one| (one.resource.as_str(), one))
            .collect();
        let now = self.stores.lock();
        now.iter().all(|(name, one)| {
            let known = known.get(name.as_str());
            known.is_some_and(|known| Arc::ptr_eq(known, one))
        })
    }

    /// The stores of this moment.
    pub fn current(&self) -> Vec<Arc<RewrittenStore>> {
        self.stores.lock().values().cloned().collect()
    }
}
