//! Descriptions of defaulted RoleBindings and ClusterRoleBindings.

use api::completeness::Expected;

/// Describes a defaulted RoleBinding or ClusterRoleBinding.
pub fn binding() -> Expected {
    let subject = Expected::default()
        .when("kind", "\"User\"", &["apiGroup"])
        .when("kind", "\"Group\"", &["apiGroup"]);
    Expected::default()
        .given(&["roleRef"])
        .below("roleRef", Expected::default().has(&["apiGroup"]))
        .below("subjects", subject)
}
