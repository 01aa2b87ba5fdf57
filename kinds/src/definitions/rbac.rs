//! `rbac.authorization.k8s.io/v1`.

use super::{rules, typed};
use crate::columns::rbac as columns;
use api::resource::{Effect, NameRule, ResourceDefinition, ResourceScope, UpdateCheck};

/// A resource of the group. Names are free, as `system:node` is one (API-201, KV-6).
fn rbac(object_type: &'static str, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        effect: Effect::NotYet,
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        ..typed(object_type, "rbac.authorization.k8s.io", plural)
    }
}

/// ClusterRoleBindings.
pub fn clusterrolebindings() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        scope: ResourceScope::Cluster,
        columns: columns::bindings(),
        ..rbac("rbac.v1.ClusterRoleBinding", "clusterrolebindings")
    })
}

/// ClusterRoles.
pub fn clusterroles() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        scope: ResourceScope::Cluster,
        columns: columns::roles(),
        ..rbac("rbac.v1.ClusterRole", "clusterroles")
    })
}

/// RoleBindings.
pub fn rolebindings() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::bindings(),
        ..rbac("rbac.v1.RoleBinding", "rolebindings")
    })
}

/// Roles.
pub fn roles() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::roles(),
        ..rbac("rbac.v1.Role", "roles")
    })
}
