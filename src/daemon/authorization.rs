//! The chain of authorizers, by the configured modes (AC-27, AC-28).

use std::sync::Arc;

use actors::supervisor::ActorSystem;

use super::StartError;
use crate::auth::{AlwaysAllow, AlwaysDeny, Authorizer, Authorizers, Member};
use crate::config::{AuthorizationMode, Config};
use crate::registry::rbac::{RBAC_CACHES, RbacAuthorizer};
use crate::registry::{NodeAuthorizer, StoredVersion};
use crate::storage::factory::StoragePlan;

/// The authorizers of a daemon.
pub(super) struct Authorization {
    /// All of them, in the configured order.
    pub(super) all: Arc<dyn Authorizer>,
    /// The roles and bindings, if they are served. Whatever the modes are, they limit who may write
    /// roles.
    pub(super) rbac: Option<Arc<RbacAuthorizer>>,
    /// What nodes may do, if that is one of the modes. The start has it follow its caches.
    pub(super) nodes: Option<NodeAuthorizer>,
}

impl Authorization {
    /// Creates the authorizers. They follow watch caches of the actor system.
    ///
    /// # Errors
    /// [`StartError::NoRoles`]
    pub(super) fn new(
        config: &Config,
        actor_system: &ActorSystem,
        plans: &[StoragePlan],
        resources: &[StoredVersion],
    ) -> Result<Authorization, StartError> {
        let rbac = roles_and_bindings(actor_system);
        let absent = rbac.as_ref().err().copied();
        let rbac = rbac.ok();
        let (mut members, mut nodes) = (Vec::new(), None);
        for mode in &config.authorization_mode.0 {
            let authorizer: Arc<dyn Authorizer> = match mode {
                AuthorizationMode::AlwaysAllow => Arc::new(AlwaysAllow),
                AuthorizationMode::AlwaysDeny => Arc::new(AlwaysDeny),
                AuthorizationMode::Rbac => match (&rbac, absent) {
                    (Some(rbac), _) => rbac.clone(),
                    (None, absent) => return Err(StartError::NoRoles(absent.unwrap_or_default())),
                },
                AuthorizationMode::Node => {
                    let is_read = |name: &str| {
                        let mut plans = plans.iter();
                        // linear: called for four resources.
                        plans.any(|plan| {
                            plan.resource().name == name && plan.destination().is_cached
                        })
                    };
                    let cache = |name: &str| Some((actor_system.cacher(name)?, is_read(name)));
                    Arc::new(nodes.insert(NodeAuthorizer::new(resources, cache)).clone())
                }
                // The check of the configuration refuses them.
                AuthorizationMode::Abac | AuthorizationMode::Webhook => continue,
            };
            members.push(Member {
                kind: mode.name(),
                name: mode.name().to_ascii_lowercase(),
                authorizer,
            });
        }
        Ok(Authorization {
            all: Arc::new(Authorizers::new(members)),
            rbac,
            nodes,
        })
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
