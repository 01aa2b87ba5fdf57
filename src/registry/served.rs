//! The current generation of what is served, and how resources come and go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::catalog::Catalog;
use super::namespace_source::NamespaceSource;
use super::rest::RestStorage;
use super::store::{RegistryStore, StoreOptions};
use crate::admission::lifecycle::NamespaceLifecycle;
use crate::admission::{Admission, Plugin};
use crate::api::resource::ResourceDefinition;
use crate::storage::{ResourceStorage, Root};

/// A resource and where its objects are stored.
pub type StoredResource = (Arc<ResourceDefinition>, ResourceStorage);

/// What is served now; clones are handles of the same.
#[derive(Clone)]
pub struct Registry {
    options: StoreOptions,
    current: Arc<watch::Sender<Arc<Catalog>>>,
}

impl Registry {
    /// A registry that serves these resources; `root` is where physical keys begin, and events are
    /// kept for so long (zero is for ever).
    pub fn new(
        root: impl Into<Root>,
        event_ttl: Duration,
        resources: Vec<StoredResource>,
    ) -> Registry {
        let mut namespaces = resources.iter();
        let namespaces = namespaces.find(|(row, _)| row.is("", "namespaces"));
        let lifecycle = namespaces.map(|(row, storages)| {
            let source = NamespaceSource::new(row.clone(), storages.storage.clone());
            Arc::new(NamespaceLifecycle::new(Arc::new(source))) as Arc<dyn Plugin>
        });
        let options = StoreOptions {
            admission: Admission::new(lifecycle.into_iter().collect()),
            root: root.into(),
            event_ttl,
            ..StoreOptions::default()
        };
        let stores = resources.into_iter();
        let stores = stores.map(|resource| store(resource, &options)).collect();
        let (current, _) = watch::channel(Arc::new(Catalog::new(stores, Vec::new())));
        Registry {
            options,
            current: Arc::new(current),
        }
    }

    /// The current generation. Who answers a request asks once and goes on with what it got.
    pub fn current(&self) -> Arc<Catalog> {
        self.current.borrow().clone()
    }

    /// Tells of every generation from now on; one that is followed fast by another may be
    /// skipped.
    pub fn follow(&self) -> watch::Receiver<Arc<Catalog>> {
        self.current.subscribe()
    }

    /// Serves one more resource from now on, or a known one from another storage.
    pub fn add(&self, resource: StoredResource) {
        let store = store(resource, &self.options);
        self.current
            .send_modify(|current| *current = Arc::new(current.with(store)));
    }

    /// Serves one more path that is not that of a stored resource: reviews, connections, and
    /// subresources that are no part of their object.
    pub fn add_other(&self, storage: Arc<dyn RestStorage>) {
        self.current
            .send_modify(|current| *current = Arc::new(current.with_other(storage)));
    }

    /// Serves a resource no more, in no version of it. Watches that no cache serves end.
    pub fn remove(&self, group: &str, plural: &str) {
        let before = self.current();
        self.current
            .send_modify(|current| *current = Arc::new(current.without(group, plural)));
        let stores = before.stores().iter();
        let removed = stores.filter(|store| store.definition().is(group, plural));
        removed.for_each(|store| store.remove());
    }
}

fn store((definition, storages): StoredResource, options: &StoreOptions) -> Arc<RegistryStore> {
    let store = RegistryStore::new(definition, storages, options.clone());
    Arc::new(store)
}
