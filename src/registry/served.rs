//! The current generation of served resources, and changes of it.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actors::cacher::CacherHandle;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::admission_client::AdmissionClient;
use super::catalog::Catalog;
use super::completeness::Completeness;
use super::definition_ledger::DefinitionLimits;
use super::definition_limits::DefinitionLimit;
use super::deletion::Collector;
use super::namespace_source::NamespaceSource;
use super::parameters::RegistryParameters;
use super::rbac::{Escalation, RbacAuthorizer};
use super::rest::{self, RestStorage};
use super::services::{AddressAllocator, PortAllocator, PortRange, ServiceAllocators};
use super::store::{RegistryStore, StoreOptions};
use super::stored_version::StoredVersion;
use crate::admission::admin_access::AdminAccess;
use crate::admission::client::ResourceClient;
use crate::admission::configuration::PluginSettings;
use crate::admission::hooks::client::{ClusterServices, WebhookTransport};
use crate::admission::hooks::policies::{ParameterRights, Parameters};
use crate::admission::lifecycle::Namespaces;
use crate::admission::{self, Admission, HookSources, Plugin, Sources};
use crate::api::error_list::ClusterPolicies;
use crate::api::status::Status;
use crate::auth::Authorizer;
use crate::kinds::validation::addresses::Range;
use crate::storage::Root;

/// The addresses and ports that Services allocate (API-228).
pub struct ServiceNetwork {
    /// The Service CIDRs, at most one for each IP family, the primary family first.
    pub address_ranges: Vec<Range>,
    /// The range of node ports.
    pub node_ports: PortRange,
    /// The RangeAllocations resource, which stores the allocated ports.
    pub range_allocations: StoredVersion,
}

/// The service network, admission plugins and authorization of a registry.
pub struct ClusterParts {
    /// The addresses and ports of Services. `None` turns allocation off.
    pub network: Option<ServiceNetwork>,
    /// The names of the admission plugins that run, in their order.
    pub admission_plugins: Vec<&'static str>,
    /// The configuration of these plugins.
    pub plugin_settings: PluginSettings,
    /// The number of objects of a collection that are deleted concurrently (RG-12).
    pub delete_collection_workers: usize,
    /// Decides what users may do, for writes that need further rights.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// The roles and bindings, for writes of roles and bindings.
    pub rbac: Option<Arc<RbacAuthorizer>>,
    /// The hooks of users, if they are served.
    pub hooks: Option<HookSources>,
    /// The policies that validation obeys.
    pub policies: ClusterPolicies,
    /// The limits on definitions of custom resources.
    pub definitions: DefinitionLimits,
    /// The cache of these definitions, if they have one.
    pub definition_cache: Option<CacherHandle>,
    /// The types of the addresses at which kubelets are reached, the preferred ones first (CN-37).
    pub node_addresses: Arc<[String]>,
}

/// The number of removed resources that are remembered. The garbage collector needs them for a
/// moment.
const FORMER_MAX: usize = 64;

/// The served resources. Clones share the same state.
#[derive(Clone)]
pub struct Registry {
    options: StoreOptions,
    allocators: Option<Arc<ServiceAllocators>>,
    webhooks: Option<Arc<dyn WebhookTransport>>,
    services: Option<Arc<ClusterServices>>,
    current: Arc<watch::Sender<Arc<Catalog>>>,
    completeness: Arc<OnceLock<Arc<dyn Completeness>>>,
    /// Resources that were removed, the newest last.
    former: Arc<Mutex<VecDeque<Arc<RegistryStore>>>>,
}

impl Registry {
    /// Creates a registry that serves these resources. `root` is the prefix of physical keys.
    /// Events are kept for `event_ttl`; zero means forever. `collector` says whether propagation
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
            plugin_settings: PluginSettings::default(),
            delete_collection_workers: 1,
            authorizer: None,
            rbac: None,
            hooks: None,
            policies: ClusterPolicies::default(),
            definitions: DefinitionLimits::default(),
            definition_cache: None,
            node_addresses: Arc::default(),
        };
        Registry::with_parts(root, event_ttl, collector, resources, parts)
    }

    /// Creates a registry with a service network and these admission plugins.
    pub fn with_parts(
        root: impl Into<Root>,
        event_ttl: Duration,
        collector: Collector,
        resources: Vec<StoredVersion>,
        ClusterParts {
            network,
            admission_plugins,
            plugin_settings,
            delete_collection_workers,
            authorizer,
            rbac,
            hooks,
            policies,
            definitions,
            definition_cache,
            node_addresses,
        }: ClusterParts,
    ) -> Registry {
        let mut options = StoreOptions {
            root: root.into(),
            event_ttl,
            collector,
            delete_collection_workers,
            policies,
            rights: rbac
                .zip(authorizer.clone())
                .map(|(rbac, authorizer)| Arc::new(Escalation::new(rbac, authorizer)) as _),
            authorizer: authorizer.clone(),
            ..StoreOptions::default()
        };
        let parameters = Arc::new(RegistryParameters::default());
        options.admission = admission(
            &admission_plugins,
            Deciders {
                authorizer: authorizer.as_ref(),
                hooks: hooks.as_ref(),
                parameters: &(Arc::clone(&parameters) as Arc<dyn Parameters>),
                settings: &plugin_settings,
            },
            (definitions, definition_cache),
            &resources,
            &options,
        );
        let clients = |group: &str, plural: &str| client(group, plural, &resources, &options);
        // Conversion webhooks are presented no credentials (HK-98).
        let webhooks = hooks
            .as_ref()
            .and_then(|hooks| hooks.transport(&clients, None));
        let services = hooks.as_ref().and_then(|hooks| hooks.services(&clients));
        let allocators = network.and_then(|network| allocators(network, &resources, &options));
        let stores = resources.into_iter();
        let stores: Vec<Arc<RegistryStore>> = stores
            .map(|resource| store(resource, &options, allocators.as_ref()))
            .collect();
        let others = rest::unstored(&stores, node_addresses);
        let (current, _) = watch::channel(Arc::new(Catalog::new(stores, others)));
        let current = Arc::new(current);
        parameters.attach(&current);
        Registry {
            options,
            allocators,
            webhooks,
            services,
            current,
            completeness: Arc::default(),
            former: Arc::default(),
        }
    }

    /// Returns the admission chain, for paths that store nothing.
    pub fn admission(&self) -> &Admission {
        &self.options.admission
    }

    /// Returns the allocators of Services, if allocation is on.
    pub fn service_allocators(&self) -> Option<&Arc<ServiceAllocators>> {
        self.allocators.as_ref()
    }

    /// Returns the client for webhooks of users, if Services are served.
    pub fn webhooks(&self) -> Option<&Arc<dyn WebhookTransport>> {
        self.webhooks.as_ref()
    }

    /// Returns what finds Services, if they are served.
    pub fn services(&self) -> Option<&Arc<ClusterServices>> {
        self.services.as_ref()
    }

    /// Returns the current generation. A request calls this once and keeps the result, so that all
    /// of it sees the same resources.
    pub fn current(&self) -> Arc<Catalog> {
        self.current.borrow().clone()
    }

    /// Sets what knows about resources that are still to come. Only the first call counts.
    pub fn set_completeness(&self, completeness: Arc<dyn Completeness>) {
        self.completeness.get_or_init(|| completeness);
    }

    /// Returns the generation of a moment in which all resources were served that had been defined
    /// before the call. Decisions about all objects, such as those of a namespace, are based on it.
    ///
    /// # Errors
    /// 503 if that is not known, as during the start.
    pub async fn complete(&self) -> Result<Arc<Catalog>, Box<Status>> {
        if let Some(completeness) = self.completeness.get() {
            completeness.settled(None).await?;
        }
        Ok(self.current())
    }

    /// Remembers a resource that is about to be removed, with a store that reads without a cache.
    pub fn remember(&self, store: Arc<RegistryStore>) {
        let mut former = self.former.lock();
        let name = &store.stored_resource().name;
        // linear: few are remembered.
        former.retain(|known| known.stored_resource().name != *name);
        former.push_back(store);
        if former.len() > FORMER_MAX {
            former.pop_front();
        }
    }

    /// Returns the store of a resource with this kind that was removed lately.
    pub fn former(&self, group: &str, version: &str, kind: &str) -> Option<Arc<RegistryStore>> {
        let former = self.former.lock();
        // linear: few are remembered.
        let found = former.iter().rev().find(|store| {
            let mut versions = store.stored_resource().versions.iter();
            versions.any(|row| row.group == group && row.version == version && row.kind == kind)
        });
        found.cloned()
    }

    /// Returns a channel with every later generation. It may skip a generation that is soon
    /// replaced.
    pub fn follow(&self) -> watch::Receiver<Arc<Catalog>> {
        self.current.subscribe()
    }

    /// Adds a version of a resource, or replaces its storage.
    pub fn add(&self, version: StoredVersion) {
        self.add_all([version]);
    }

    /// Adds several versions in one generation.
    pub fn add_all(&self, versions: impl IntoIterator<Item = StoredVersion>) {
        let versions = versions.into_iter();
        let stores: Vec<_> = versions
            .map(|version| store(version, &self.options, self.allocators.as_ref()))
            .collect();
        self.current
            .send_modify(|current| *current = Arc::new(current.with_all(stores)));
    }

    /// Replaces stores by versions, and removes the others, in one generation. Watches of the
    /// stores go on. Returns the new stores.
    pub fn replace(
        &self,
        removed: &[Arc<RegistryStore>],
        added: impl IntoIterator<Item = StoredVersion>,
    ) -> Vec<Arc<RegistryStore>> {
        let added: Vec<_> = added
            .into_iter()
            .map(|version| self.store(version))
            .collect();
        self.current.send_modify(|current| {
            *current = Arc::new(current.replaced(removed, added.iter().cloned()));
        });
        added
    }

    /// Returns a store of a version that is not served by it.
    pub fn store(&self, version: StoredVersion) -> Arc<RegistryStore> {
        store(version, &self.options, self.allocators.as_ref())
    }

    /// Adds a path that does not belong to a stored resource: a review, a connection, or a
    /// subresource that is not part of its object.
    pub fn add_other(&self, storage: Arc<dyn RestStorage>) {
        self.add_others([storage]);
    }

    /// Adds several such paths in one generation.
    pub fn add_others(&self, storages: impl IntoIterator<Item = Arc<dyn RestStorage>>) {
        self.current
            .send_modify(|current| *current = Arc::new(current.with_others(storages)));
    }

    /// Removes a version of a resource, and ends its watches that bypass the cache. The cache ends
    /// the others.
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
    if definition.group != "rbac.authorization.k8s.io" {
        options.rights = None;
    }
    Arc::new(RegistryStore::new(definition, storages, options))
}

/// The parts outside of the store that plugins ask.
#[derive(Clone, Copy)]
struct Deciders<'d> {
    authorizer: Option<&'d Arc<dyn Authorizer>>,
    hooks: Option<&'d HookSources>,
    parameters: &'d Arc<dyn Parameters>,
    settings: &'d PluginSettings,
}

/// Creates the admission chain. Stores that plugins read from have no admission of their own.
fn admission(
    names: &[&'static str],
    deciders: Deciders<'_>,
    definitions: (DefinitionLimits, Option<CacherHandle>),
    resources: &[StoredVersion],
    options: &StoreOptions,
) -> Admission {
    let find = |group: &str, plural: &str| {
        let mut resources = resources.iter();
        // linear: called for a few resources, when they change.
        resources.find(|(row, _)| row.is(group, plural))
    };
    let namespaces = find("", "namespaces").map(|(row, storages)| {
        let source = NamespaceSource::new(row.clone(), storages.storage.clone());
        Arc::new(source) as Arc<dyn Namespaces>
    });
    let clients = |group: &str, plural: &str| client(group, plural, resources, options);
    let sources = Sources {
        namespaces: namespaces.as_ref(),
        clients: &clients,
        authorizer: deciders.authorizer,
        hooks: deciders.hooks,
        parameters: deciders.parameters,
        settings: deciders.settings,
    };
    let mut plugins = admission::built(names, sources);
    plugins.extend(namespaces.map(|namespaces| {
        let plugin: Arc<dyn Plugin> = Arc::new(AdminAccess::new(namespaces));
        plugin
    }));
    plugins.extend(
        deciders
            .hooks
            .zip(deciders.authorizer)
            .map(|(hooks, authorizer)| {
                let plugin: Arc<dyn Plugin> = Arc::new(ParameterRights {
                    validating: Arc::clone(&hooks.validating_policies.policies),
                    mutating: Arc::clone(&hooks.mutating_policies.policies),
                    parameters: Arc::clone(deciders.parameters),
                    authorizer: Arc::clone(authorizer),
                });
                plugin
            }),
    );
    let stored = find("apiextensions.k8s.io", "customresourcedefinitions");
    plugins.extend(stored.map(|stored| {
        let store = store(stored.clone(), options, None);
        let (limits, cache) = definitions;
        let plugin: Arc<dyn Plugin> = Arc::new(DefinitionLimit::new(store, limits, cache));
        plugin
    }));
    Admission::new(plugins)
}

/// Returns a client for a resource, without admission of its own.
fn client(
    group: &str,
    plural: &str,
    resources: &[StoredVersion],
    options: &StoreOptions,
) -> Option<Arc<dyn ResourceClient>> {
    let mut resources = resources.iter();
    // linear: called for a few resources, when they change.
    let found = resources.find(|(row, _)| row.is(group, plural))?;
    let options = StoreOptions {
        admission: Admission::default(),
        ..options.clone()
    };
    let client = AdmissionClient::new(store(found.clone(), &options, None));
    Some(Arc::new(client) as Arc<dyn ResourceClient>)
}

/// Creates the allocators of Services. `None` if a resource that they need is not served.
fn allocators(
    network: ServiceNetwork,
    resources: &[StoredVersion],
    options: &StoreOptions,
) -> Option<Arc<ServiceAllocators>> {
    let find = |group, plural| {
        let mut resources = resources.iter();
        // linear: called for three resources, when they change.
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
