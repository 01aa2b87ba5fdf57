//! Defaults of role bindings (API-257).

use api::object::Object;

use super::{Members, items, member_or_new, set_default};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Sets the defaults of a RoleBinding.
pub fn rolebinding(object: &mut Object) {
    binding(&mut object.0);
}

/// Sets the defaults of a ClusterRoleBinding.
pub fn clusterrolebinding(object: &mut Object) {
    binding(&mut object.0);
}

fn binding(members: &mut Members) {
    if let Some(reference) = member_or_new(members, "roleRef") {
        set_default(reference, "apiGroup", GROUP);
    }
    for subject in items(members, "subjects") {
        let kind = subject.get("kind").and_then(|kind| kind.as_str());
        if matches!(kind, Some("User" | "Group")) {
            set_default(subject, "apiGroup", GROUP);
        }
    }
}
