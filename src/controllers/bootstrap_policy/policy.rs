//! Kubernetes' roles and bindings (AC-67), as objects. Pure.
//!
//! `policy.json` has them without the members that all of them share.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::object::Object;

const POLICY: &str = include_str!("policy.json");

/// The group of the resources.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";
/// The version of the objects.
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The annotation by which somebody keeps an object as it is.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    cluster_roles: Vec<Role>,
    cluster_role_bindings: Vec<Binding>,
    roles: Vec<Role>,
    role_bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Role {
    namespace: Option<String>,
    name: String,
    /// The label that lets another role aggregate this one.
    label: Option<String>,
    /// The label of the roles that this one aggregates.
    aggregates: Option<String>,
    rules: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    namespace: Option<String>,
    name: String,
    role: String,
    /// Each as `User name`, `Group name` or `ServiceAccount namespace/name`.
    subjects: Vec<String>,
}

/// The objects of one resource.
pub(super) struct Wanted {
    /// The name of the resource: `roles.rbac.authorization.k8s.io`.
    pub(super) resource: &'static str,
    /// The objects.
    pub(super) objects: Vec<Object>,
}

/// Returns all objects, in the order in which they are made.
///
/// # Errors
/// The table is damaged, which a test excludes.
pub(super) fn wanted() -> Result<[Wanted; 4], serde_json::Error> {
    let policy: Policy = serde_json::from_str(POLICY)?;
    let cluster_roles = policy.cluster_roles.into_iter().map(Role::object);
    let cluster_bindings = policy.cluster_role_bindings.into_iter();
    let roles = policy.roles.into_iter().map(Role::object);
    let bindings = policy.role_bindings.into_iter();
    Ok([
        Wanted {
            resource: "clusterroles.rbac.authorization.k8s.io",
            objects: cluster_roles.collect(),
        },
        Wanted {
            resource: "clusterrolebindings.rbac.authorization.k8s.io",
            objects: cluster_bindings.map(Binding::object).collect(),
        },
        Wanted {
            resource: "roles.rbac.authorization.k8s.io",
            objects: roles.collect(),
        },
        Wanted {
            resource: "rolebindings.rbac.authorization.k8s.io",
            objects: bindings.map(Binding::object).collect(),
        },
    ])
}

/// Returns an object with the members that all have.
fn object(kind: &str, namespace: Option<&str>, name: &str) -> Object {
    let mut object = Object::default();
    object.set_type(kind, API_VERSION);
    object.set_meta("name", name);
    object.set_meta("namespace", namespace.unwrap_or_default());
    let metadata = object.metadata_mut();
    metadata.insert("annotations".to_owned(), json!({ AUTO_UPDATE: "true" }));
    let labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    metadata.insert("labels".to_owned(), labels);
    object
}

impl Role {
    fn object(self) -> Object {
        let namespace = self.namespace.as_deref();
        let kind = namespace.map_or("ClusterRole", |_| "Role");
        let mut object = object(kind, namespace, &self.name);
        if let Some(label) = self.label
            && let Some(Value::Object(labels)) = object.metadata_mut().get_mut("labels")
        {
            labels.insert(label, "true".into());
        }
        if let Some(label) = self.aggregates {
            let labels: Map<String, Value> = [(label, "true".into())].into_iter().collect();
            let rule = json!({ "clusterRoleSelectors": [{ "matchLabels": labels }] });
            object.0.insert("aggregationRule".to_owned(), rule);
        }
        object.0.insert("rules".to_owned(), self.rules.into());
        object
    }
}

impl Binding {
    fn object(self) -> Object {
        let namespace = self.namespace.as_deref();
        let (kind, role) = match namespace {
            Some(_) => ("RoleBinding", "Role"),
            None => ("ClusterRoleBinding", "ClusterRole"),
        };
        let mut object = object(kind, namespace, &self.name);
        let role = json!({ "apiGroup": GROUP, "kind": role, "name": self.role });
        object.0.insert("roleRef".to_owned(), role);
        if !self.subjects.is_empty() {
            let subjects: Vec<Value> = self.subjects.iter().map(|text| subject(text)).collect();
            object.0.insert("subjects".to_owned(), subjects.into());
        }
        object
    }
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(' ').unwrap_or(("User", text));
    match name.split_once('/').filter(|_| kind == "ServiceAccount") {
        Some((namespace, name)) => json!({ "kind": kind, "name": name, "namespace": namespace }),
        None => json!({ "apiGroup": GROUP, "kind": kind, "name": name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_all_objects_of_kubernetes_1_36_ac_67() {
        let counts = wanted().unwrap().map(|wanted| wanted.objects.len());
        assert_eq!(counts, [69, 50, 7, 7]);
    }
}
