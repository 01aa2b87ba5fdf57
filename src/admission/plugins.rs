//! The plugins that are built, by their names in Kubernetes.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::Plugin;
use super::certificates::{CertificateSubjectRestriction, SignerPermission};
use super::client::ResourceClient;
use super::configuration::PluginSettings;
use super::default_classes::{DefaultIngressClass, DefaultStorageClass};
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::hooks::HookSource;
use super::hooks::client::{ClusterServices, WebhookClient, WebhookTransport};
use super::hooks::policies::{
    Binding, MutatingPolicies, Parameters, Policy, PolicySources, ValidatingPolicies,
};
use super::hooks::webhooks::{Configuration, MutatingWebhooks, ValidatingWebhooks, WebhookSources};
use super::in_use_protection::StorageObjectInUseProtection;
use super::lifecycle::{NamespaceLifecycle, Namespaces};
use super::limit_ranger::LimitRanger;
use super::node_declared_features::NodeDeclaredFeatureValidator;
use super::node_restriction::{NodeObjects, NodeRestriction};
use super::pod_resize::PodResizeValidator;
use super::pod_security::PodSecurity;
use super::pod_topology_labels::PodTopologyLabels;
use super::priority::Priority;
use super::resource_quota::ResourceQuota;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::volume_resize::PersistentVolumeClaimResize;
use crate::auth::Authorizer;
use crate::auth::kubeconfigs::UsersByServer;
use crate::egress::EgressClient;

/// A lookup of other resources. `None` for a resource that is not served.
pub type Clients<'c> = &'c dyn Fn(&str, &str) -> Option<Arc<dyn ResourceClient>>;

/// The dependencies of plugins.
#[derive(Clone, Copy)]
pub struct Sources<'s> {
    /// The states of namespaces, if they are served.
    pub namespaces: Option<&'s Arc<dyn Namespaces>>,
    /// Other resources.
    pub clients: Clients<'s>,
    /// Decides what users may do, if it is known.
    pub authorizer: Option<&'s Arc<dyn Authorizer>>,
    /// The hooks of users, if they are served.
    pub hooks: Option<&'s HookSources>,
    /// The objects that bindings of policies refer to.
    pub parameters: &'s Arc<dyn Parameters>,
    /// The configuration of plugins.
    pub settings: &'s PluginSettings,
}

/// The hooks of users.
#[derive(Clone)]
pub struct HookSources {
    /// Mutating webhooks.
    pub mutating_webhooks: Arc<dyn HookSource<Configuration>>,
    /// Validating webhooks.
    pub validating_webhooks: Arc<dyn HookSource<Configuration>>,
    /// Validating policies and their bindings.
    pub validating_policies: PolicyHooks,
    /// Mutating policies and their bindings.
    pub mutating_policies: PolicyHooks,
    /// The client for requests to webhooks.
    pub client: Arc<EgressClient>,
    /// The `host:port` of this daemon.
    pub own: String,
    /// Whether requests to Services go to their endpoints (`--enable-aggregator-routing`).
    pub to_endpoints: bool,
}

/// The policies of one kind with their bindings.
#[derive(Clone)]
pub struct PolicyHooks {
    /// The policies.
    pub policies: Arc<dyn HookSource<Policy>>,
    /// Their bindings.
    pub bindings: Arc<dyn HookSource<Binding>>,
}

impl HookSources {
    /// Returns what finds Services. `None` if they are not served.
    pub fn services(&self, clients: Clients<'_>) -> Option<Arc<ClusterServices>> {
        Some(Arc::new(ClusterServices {
            services: clients("", "services")?,
            slices: clients("discovery.k8s.io", "endpointslices")?,
            own: self.own.clone(),
            to_endpoints: self.to_endpoints,
            turn: AtomicUsize::default(),
        }))
    }

    /// Returns the client that sends reviews and authenticates by these users. `None` if Services
    /// are not served.
    pub fn transport(
        &self,
        clients: Clients<'_>,
        users: Option<&Arc<UsersByServer>>,
    ) -> Option<Arc<dyn WebhookTransport>> {
        let (client, services) = (Arc::clone(&self.client), self.services(clients)?);
        Some(Arc::new(WebhookClient::new(
            client,
            services,
            users.cloned(),
        )))
    }
}

/// The plugins with these names, in this order. Unknown names, and plugins whose dependencies are
/// missing, are left out.
pub fn built(names: &[&str], sources: Sources<'_>) -> Vec<Arc<dyn Plugin>> {
    let built = names.iter().map(|name| one(name, sources));
    built.flatten().collect()
}

fn one(name: &str, sources: Sources<'_>) -> Option<Arc<dyn Plugin>> {
    let Sources {
        namespaces,
        clients,
        authorizer,
        hooks,
        parameters,
        settings,
    } = sources;
    let webhooks = |configurations: fn(&HookSources) -> &Arc<dyn HookSource<Configuration>>,
                    users: &Option<Arc<UsersByServer>>| {
        Some(WebhookSources {
            configurations: Arc::clone(configurations(hooks?)),
            namespaces: clients("", "namespaces")?,
            authorizer: authorizer?.clone(),
            transport: hooks?.transport(clients, users.as_ref())?,
        })
    };
    let policies = |of: fn(&HookSources) -> &PolicyHooks| {
        let PolicyHooks { policies, bindings } = of(hooks?);
        Some(PolicySources {
            policies: Arc::clone(policies),
            bindings: Arc::clone(bindings),
            namespaces: clients("", "namespaces")?,
            parameters: Arc::clone(parameters),
            authorizer: Arc::clone(authorizer?),
        })
    };
    let classes = |plural| clients("storage.k8s.io", plural);
    Some(match name {
        "NamespaceLifecycle" => Arc::new(NamespaceLifecycle::new(namespaces?.clone())),
        "LimitRanger" => Arc::new(LimitRanger::new(clients("", "limitranges")?)),
        "ServiceAccount" => Arc::new(ServiceAccount::new(clients("", "serviceaccounts")?)),
        "NodeRestriction" => {
            let objects = NodeObjects {
                pods: clients("", "pods")?,
                nodes: clients("", "nodes")?,
                claims: clients("", "persistentvolumeclaims")?,
                volumes: clients("", "persistentvolumes")?,
                drivers: classes("csidrivers")?,
            };
            Arc::new(NodeRestriction::new(objects, authorizer?.clone()))
        }
        "TaintNodesByCondition" => Arc::new(TaintNodesByCondition),
        "PodSecurity" => Arc::new(PodSecurity::new(
            clients("", "namespaces")?,
            clients("", "pods")?,
            Arc::clone(&settings.pod_security),
        )),
        "Priority" => Arc::new(Priority::new(clients(
            "scheduling.k8s.io",
            "priorityclasses",
        )?)),
        "DefaultTolerationSeconds" => Arc::new(DefaultTolerationSeconds(settings.tolerations)),
        "DefaultStorageClass" => Arc::new(DefaultStorageClass::new(classes("storageclasses")?)),
        "StorageObjectInUseProtection" => Arc::new(StorageObjectInUseProtection),
        "PersistentVolumeClaimResize" => {
            Arc::new(PersistentVolumeClaimResize::new(classes("storageclasses")?))
        }
        "RuntimeClass" => Arc::new(RuntimeClass::new(clients("node.k8s.io", "runtimeclasses")?)),
        "CertificateApproval" => Arc::new(SignerPermission::of_approval(authorizer?.clone())),
        "CertificateSigning" => Arc::new(SignerPermission::of_signing(authorizer?.clone())),
        "CertificateSubjectRestriction" => Arc::new(CertificateSubjectRestriction),
        "DefaultIngressClass" => Arc::new(DefaultIngressClass::new(clients(
            "networking.k8s.io",
            "ingressclasses",
        )?)),
        "PodTopologyLabels" => Arc::new(PodTopologyLabels::new(clients("", "nodes")?)),
        "NodeDeclaredFeatureValidator" => {
            Arc::new(NodeDeclaredFeatureValidator::new(clients("", "nodes")?))
        }
        "PodResizeValidator" => Arc::new(PodResizeValidator::new(clients("", "nodes")?)),
        "MutatingAdmissionPolicy" => Arc::new(MutatingPolicies::new(policies(|all| {
            &all.mutating_policies
        })?)),
        "ValidatingAdmissionPolicy" => Arc::new(ValidatingPolicies::new(policies(|all| {
            &all.validating_policies
        })?)),
        "MutatingAdmissionWebhook" => Arc::new(MutatingWebhooks::new(webhooks(
            |all| &all.mutating_webhooks,
            &settings.users_for_mutating,
        )?)),
        "ValidatingAdmissionWebhook" => Arc::new(ValidatingWebhooks::new(webhooks(
            |all| &all.validating_webhooks,
            &settings.users_for_validating,
        )?)),
        "ResourceQuota" => Arc::new(resource_quota(clients, settings)?),
        _ => return None,
    })
}

fn resource_quota(clients: Clients<'_>, settings: &PluginSettings) -> Option<ResourceQuota> {
    let of_devices = |plural| clients("resource.k8s.io", plural);
    let devices = of_devices("deviceclasses").zip(of_devices("resourceclaims"));
    let devices = devices.zip(clients("", "pods"));
    let devices = devices.map(|((classes, claims), pods)| [classes, claims, pods]);
    let quotas = clients("", "resourcequotas")?;
    let limited = Arc::clone(&settings.limited);
    Some(ResourceQuota::new(quotas, devices, limited))
}
