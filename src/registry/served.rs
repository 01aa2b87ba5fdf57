//! The current generation of served resources, and adding and removing of resources.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::admission_client::AdmissionClient;
use super::catalog::Catalog;
use super::deletion::Collector;
use super::namespace_source::NamespaceSource;
use super::rest::{self, RestStorage};
use super::services::{AddressAllocator, PortAllocator, PortRange, ServiceAllocators};
use super::store::{RegistryStore, StoreOptions};
use crate::admission::admin_access::AdminAccess;
use crate::admission::client::ResourceClient;
use crate::admission::lifecycle::Namespaces;
use crate::admission::rights::Rights;
use crate::admission::{self, Admission, Plugin, Sources};
use crate::api::resource::ResourceDefinition;
use crate::kinds::validation::addresses::Range;
use crate::storage::{ResourceStorage, Root};

/// A version of a resource and the storage of its objects.
pub type StoredVersion = (Arc<ResourceDefinition>, ResourceStorage);

/// What Services take of the cluster (API-228).
pub struct ServiceNetwork {
    /// The ranges of their addresses, at most one for each family, the first family first.
    pub address_ranges: Vec<Range>,
    /// The ports of the nodes.
    pub node_ports: PortRange,
    /// RangeAllocations, where taken ports are kept.
    pub range_allocations: StoredVersion,
}

/// What a daemon has besides its resources.
pub struct ClusterParts {
    /// What Services take of the cluster, if they do.
    pub network: Option<ServiceNetwork>,
    /// The names of the admission plugins that run, in their order.
    pub admission_plugins: Vec<&'static str>,
    /// How many objects of a collection are deleted at a time (RG-12).
    pub delete_collection_workers: usize,
    /// What users may do, as plugins ask.
    pub rights: Option<Arc<dyn Rights>>,
}

/// The served resources. Clones share the same state.
#[derive(Clone)]
pub struct Registry {
    options: StoreOptions,
    allocators: Option<Arc<ServiceAllocators>>,
    current: Arc<watch::Sender<Arc<Catalog>>>,
}

impl Registry {
    /// A registry that serves these resources. `root` is the prefix of physical keys. Events are
    /// kept for `event_ttl`, where zero means forever. `collector` tells whether propagation
    /// policies become finalizers.
    pub fn new(
        root: impl Into<Root>,
        event_ttl: Duration,
        collector: Collector,
        resources: Vec<StoredVersion>,
    ) -> Registry {
        let parts = ClusterParts {
            network: None,
            admission_plugins: vec!["NamespaceLifecycle"],
            delete_collection_workers: 1,
            rights: None,
        };
        Registry::with_parts(root, event_ttl, collector, resources, parts)
    }

    /// The same, with what Services take, and with these admission plugins.
    pub fn with_parts(
        root: impl Into<Root>,
        event_ttl: Duration,
        collector: Collector,
        resources: Vec<StoredVersion>,
        ClusterParts {
            network,
            admission_plugins,
            delete_collection_workers,
            rights,
        }: ClusterParts,
    ) -> Registry {
        let mut options = StoreOptions {
            root: root.into(),
            event_ttl,
            collector,
            delete_collection_workers,
            ..StoreOptions::default()
        };
        options.admission = admission(&admission_plugins, rights.as_ref(), &resources, &options);
        let allocators = network.and_then(|network| allocators(network, &resources, &options));
        let stores = resources.into_iter();
        let stores: Vec<Arc<RegistryStore>> = stores
            .map(|resource| store(resource, &options, allocators.as_ref()))
            .collect();
        let others = rest::unstored(&stores);
        let (current, _) = watch::channel(Arc::new(Catalog::new(stores, others)));
        Registry {
            options,
            allocators,
            current: Arc::new(current),
        }
    }

    /// The allocators of what Services take, if there are any.
    pub fn service_allocators(&self) -> Option<&Arc<ServiceAllocators>> {
        self.allocators.as_ref()
    }

    /// The current generation. A request calls this once and keeps the result.
    pub fn current(&self) -> Arc<Catalog> {
        self.current.borrow().clone()
    }

    /// A channel with every later generation. A generation that is quickly replaced may be skipped.
    pub fn follow(&self) -> watch::Receiver<Arc<Catalog>> {
        self.current.subscribe()
    }

    /// Adds a version of a resource, or replaces the storage of a known one.
    pub fn add(&self, version: StoredVersion) {
        let store = store(version, &self.options, self.allocators.as_ref());
        self.current
            .send_modify(|current| *current = Arc::new(current.with(store)));
    }

    /// Adds a path that does not belong to a stored resource: reviews, connections, and
    /// subresources that are not part of their object.
    pub fn add_other(&self, storage: Arc<dyn RestStorage>) {
        self.current
            .send_modify(|current| *current = Arc::new(current.with_other(storage)));
    }

    /// Adds several such paths in one generation.
    pub fn add_others(&self, storages: impl IntoIterator<Item = Arc<dyn RestStorage>>) {
        self.current.send_modify(|current| {
            let mut next = Catalog::clone(current);
            for storage in storages {
                next = next.with_other(storage);
            }
            *current = Arc::new(next);
        });
    }

    /// Removes a version of a resource. Its watches without a cache end.
    pub fn remove(&self, group: &str, version: &str, plural: &str) {
        let before = self.current();
        self.current
            .send_modify(|current| *current = Arc::new(current.without(group, version, plural)));
        if let Some(store) = before.find(group, version, plural) {
            store.remove();
        }
    }
}

fn store(
    (definition, storages): StoredVersion,
    options: &StoreOptions,
    allocators: Option<&Arc<ServiceAllocators>>,
) -> Arc<RegistryStore> {
    let mut options = options.clone();
    if definition.is("", "services") {
        options.allocation = allocators.map(|allocators| Arc::clone(allocators) as _);
    }
    Arc::new(RegistryStore::new(definition, storages, options))
}

/// Admission by these plugins. What they read of other resources has no admission itself.
fn admission(
    names: &[&'static str],
    rights: Option<&Arc<dyn Rights>>,
    resources: &[StoredVersion],
    options: &StoreOptions,
) -> Admission {
    let find = |group: &str, plural: &str| {
        let mut resources = resources.iter();
        // linear: asked for a few resources, when they change.
        resources.find(|(row, _)| row.is(group, plural))
    };
    let namespaces = find("", "namespaces").map(|(row, storages)| {
        let source = NamespaceSource::new(row.clone(), storages.storage.clone());
        Arc::new(source) as Arc<dyn Namespaces>
    });
    let clients = |group: &str, plural: &str| {
        let found = find(group, plural)?;
        let client = AdmissionClient::new(store(found.clone(), options, None));
        Some(Arc::new(client) as Arc<dyn ResourceClient>)
    };
    let sources = Sources {
        namespaces: namespaces.as_ref(),
        clients: &clients,
        rights,
    };
    let mut plugins = admission::built(names, sources);
    plugins.extend(namespaces.map(|namespaces| {
        let plugin: Arc<dyn Plugin> = Arc::new(AdminAccess::new(namespaces));
        plugin
    }));
    Admission::new(plugins)
}

/// The allocators of what Services take. `None` if what they need is not served.
fn allocators(
    network: ServiceNetwork,
    resources: &[StoredVersion],
    options: &StoreOptions,
) -> Option<Arc<ServiceAllocators>> {
    let find = |group, plural| {
        let mut resources = resources.iter();
        // linear: asked for three resources, when they change.
        let found = resources.find(|(row, _)| row.is(group, plural));
        found.map(|version| store(version.clone(), options, None))
    };
    let services = find("", "services")?;
    let addresses = find("networking.k8s.io", "ipaddresses")?;
    let cidrs = find("networking.k8s.io", "servicecidrs")?;
    let addresses = AddressAllocator::new(addresses, cidrs, network.address_ranges);
    let ports = PortAllocator::new(network.range_allocations, network.node_ports);
    Some(Arc::new(ServiceAllocators::new(
        Arc::clone(services.definition()),
        addresses,
        ports,
        find("", "endpoints"),
    )))
}
