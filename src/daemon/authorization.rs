//! The chain of authorizers, by the configured modes (AC-27, AC-28).

use std::sync::Arc;

use actors::supervisor::ActorSystem;
use actors::tasks;

use super::StartError;
use super::authorization_chain::{self, OfObjects};
use crate::auth::Authorizer;
use crate::auth::authorization_config::{AuthorizerType, ConfiguredAuthorizers};
use crate::config::Config;
use crate::egress::EgressClient;
use crate::registry::rbac::{RBAC_CACHES, RbacAuthorizer};
use crate::registry::{NODE_CACHES, NodeAuthorizer};
use crate::storage::factory::StoragePlan;

/// The authorizers of a daemon.
pub(super) struct Authorization {
    /// All of them, in the configured order.
    pub(super) all: Arc<dyn Authorizer>,
    /// The same if a file configures them, which may change.
    pub(super) configured: Option<Arc<ConfiguredAuthorizers>>,
    /// The roles and bindings, if they are served. They limit who may write roles in all
    /// modes.
    pub(super) rbac: Option<Arc<RbacAuthorizer>>,
    /// The rights of nodes, if that is one of the modes. The start has it follow its caches.
    pub(super) nodes: Option<NodeAuthorizer>,
}

impl Authorization {
    /// Creates the authorizers. They follow watch caches of the actor system, and `client` asks
    /// webhooks.
    ///
    /// # Errors
    /// [`StartError::NoRoles`], [`StartError::Authorization`]
    pub(super) fn new(
        config: &Config,
        actor_system: &ActorSystem,
        plans: &[StoragePlan],
        client: Arc<EgressClient>,
    ) -> Result<Authorization, StartError> {
        let rbac = roles_and_bindings(actor_system);
        let absent = rbac.as_ref().err().copied();
        let rbac = rbac.ok();
        let wants_roles = authorization_chain::wants(config, AuthorizerType::Rbac);
        if wants_roles && let Some(absent) = absent {
            return Err(StartError::NoRoles(absent));
        }
        let wants_nodes = authorization_chain::wants(config, AuthorizerType::Node);
        let nodes = wants_nodes.then(|| nodes(actor_system, plans));
        let of_objects = OfObjects {
            node: nodes
                .clone()
                .map(|nodes| Arc::new(nodes) as Arc<dyn Authorizer>),
            rbac: rbac.clone().map(|rbac| rbac as Arc<dyn Authorizer>),
        };
        let chain = authorization_chain::chain(config, of_objects, client)?;
        Ok(Authorization {
            all: chain.all,
            configured: chain.configured,
            rbac,
            nodes,
        })
    }
}

impl Authorization {
    /// Starts the task that follows the file of authorizers, if there is one.
    pub(super) fn followed(&self) -> Option<actix_rt::task::JoinHandle<()>> {
        let configured = self.configured.clone()?;
        Some(tasks::spawn_local(configured.follow()))
    }
}

/// Returns the authorizer by roles and bindings, or the name of a resource that is not served.
fn roles_and_bindings(actor_system: &ActorSystem) -> Result<Arc<RbacAuthorizer>, &'static str> {
    let cache = |name| actor_system.cacher(name).ok_or(name);
    let [cluster_roles, roles, cluster_bindings, bindings] = RBAC_CACHES;
    Ok(Arc::new(RbacAuthorizer::new([
        cache(cluster_roles)?,
        cache(roles)?,
        cache(cluster_bindings)?,
        cache(bindings)?,
    ])))
}

/// Returns the authorizer of nodes. Without a watch cache, clients and the authorizer may see
/// different states for a moment.
fn nodes(actor_system: &ActorSystem, plans: &[StoragePlan]) -> NodeAuthorizer {
    let name = |plan: &StoragePlan| plan.resource().name.clone();
    let plans: Vec<&StoragePlan> = plans
        .iter()
        .filter(|plan| NODE_CACHES.contains(&&*name(plan)))
        .collect();
    let versions = plans.iter();
    let versions = versions.flat_map(|plan| plan.build_versions(actor_system));
    let versions: Vec<_> = versions.collect();
    let is_read = |wanted: &str| {
        let mut plans = plans.iter();
        // linear: four resources.
        plans.any(|plan| name(plan) == wanted && plan.destination().is_cached)
    };
    let cache = |name: &str| Some((actor_system.cacher(name)?, is_read(name)));
    NodeAuthorizer::new(&versions, cache)
}
