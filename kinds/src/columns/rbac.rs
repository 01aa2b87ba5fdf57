//! The columns of `rbac.authorization.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::Column;

use super::{computed, list, member, plain};

/// Returns the columns of Roles and ClusterRoles.
pub fn roles() -> Vec<Column> {
    plain()
}

/// Returns the columns of RoleBindings and ClusterRoleBindings.
pub fn bindings() -> Vec<Column> {
    let role = computed(|binding, _| {
        let (kind, name) = (
            binding.text(&["roleRef", "kind"]),
            binding.text(&["roleRef", "name"]),
        );
        format!("{kind}/{name}").into()
    });
    let users = computed(|binding, _| subjects(binding, "User").into());
    let groups = computed(|binding, _| subjects(binding, "Group").into());
    let accounts = computed(|binding, _| subjects(binding, "ServiceAccount").into());
    vec![
        Column::name(),
        Column::text("Role", "Role that the binding grants.", role),
        Column::age(),
        Column::text("Users", "Users who have the role.", users).wide(),
        Column::text("Groups", "Groups whose members have the role.", groups).wide(),
        Column::text(
            "ServiceAccounts",
            "ServiceAccounts that have the role.",
            accounts,
        )
        .wide(),
    ]
}

/// Returns the names of the subjects of a kind.
fn subjects(binding: &Object, kind: &str) -> String {
    let subjects = list(binding, &["subjects"]).iter();
    let subjects = subjects.filter(|subject| member(subject, "kind") == kind);
    let names: Vec<String> = subjects
        .map(|subject| match (kind, member(subject, "name")) {
            ("ServiceAccount", name) => format!("{}/{name}", member(subject, "namespace")),
            (_, name) => name.to_owned(),
        })
        .collect();
    names.join(", ")
}
