//! The resources of `rbac.authorization.k8s.io/v1`.

use super::row::Row;
use super::typed;
use crate::columns::rbac as columns;
use crate::{defaults, validation};
use api::resource::{Effect, NameRule, ResourceDefinition, ResourceScope, UpdateCheck};

/// Returns a row of the group. Names may contain any characters of a path segment, such as the
/// colon in `system:node` (API-201, KV-6).
fn rbac(object_type: &'static str, plural: &'static str) -> Row {
    Row {
        effect: Effect::FullAtOnce,
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        ..typed(object_type, "rbac.authorization.k8s.io", plural)
    }
}

/// Returns the definition of ClusterRoleBindings.
pub fn clusterrolebindings() -> ResourceDefinition {
    Row {
        scope: ResourceScope::Cluster,
        columns: columns::bindings(),
        defaults: Some(defaults::rbac::clusterrolebinding),
        complete: Some(defaults::complete::rbac::binding),
        validate: Some(validation::rbac::validate_clusterrolebinding),
        validate_update: Some(validation::rbac::validate_clusterrolebinding_update),
        ..rbac("rbac.v1.ClusterRoleBinding", "clusterrolebindings")
    }
    .definition()
}

/// Returns the definition of ClusterRoles.
pub fn clusterroles() -> ResourceDefinition {
    Row {
        scope: ResourceScope::Cluster,
        columns: columns::roles(),
        validate: Some(validation::rbac::validate_clusterrole),
        validate_update: Some(validation::rbac::validate_clusterrole_update),
        ..rbac("rbac.v1.ClusterRole", "clusterroles")
    }
    .definition()
}

/// Returns the definition of RoleBindings.
pub fn rolebindings() -> ResourceDefinition {
    Row {
        columns: columns::bindings(),
        defaults: Some(defaults::rbac::rolebinding),
        complete: Some(defaults::complete::rbac::binding),
        validate: Some(validation::rbac::validate_rolebinding),
        validate_update: Some(validation::rbac::validate_rolebinding_update),
        ..rbac("rbac.v1.RoleBinding", "rolebindings")
    }
    .definition()
}

/// Returns the definition of Roles.
pub fn roles() -> ResourceDefinition {
    Row {
        columns: columns::roles(),
        validate: Some(validation::rbac::validate_role),
        validate_update: Some(validation::rbac::validate_role_update),
        ..rbac("rbac.v1.Role", "roles")
    }
    .definition()
}
