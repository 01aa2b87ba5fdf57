//! Kinds of the core group without a module of their own: Namespaces (API-224, http.md 6.2),
//! LimitRanges and ServiceAccounts.

use api::object::{Object, put, whole_seconds};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::defaults::core::{label_with_name, namespace};

/// The namespaces that the server creates and keeps (API-262).
pub const SYSTEM_NAMESPACES: &[&str] =
    &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The finalizer in `spec.finalizers` that keeps a namespace until its contents are deleted.
pub const CONTENT_FINALIZER: &str = "kubernetes";

const FINALIZERS: &[&str] = &["spec", "finalizers"];

/// Sets the phase, finalizer and label of a new namespace (API-224).
pub fn prepare_namespace_create(object: &mut Object) {
    put(object, &["status"], json!({"phase": "Active"}));
    let mut finalizers = finalizers_of(object);
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == CONTENT_FINALIZER)
    {
        finalizers.push(CONTENT_FINALIZER.into());
    }
    put(object, FINALIZERS, finalizers.into());
    label_with_name(object);
}

/// Sets the fields that an update omits.
pub fn prepare_namespace_update(object: &mut Object, _: &Object) {
    // Kubernetes prints an empty spec for a namespace without finalizers.
    if finalizers_of(object).is_empty() {
        put(object, &["spec"], json!({}));
    }
    namespace(object);
}

/// Reports whether finalizers in the spec hold the namespace.
pub fn is_namespace_held(object: &Object) -> bool {
    !finalizers_of(object).is_empty()
}

/// Marks the namespace for deletion and sets its phase. It has no grace period.
pub fn mark_namespace(object: &mut Object, now: Timestamp) {
    object.set_meta("deletionTimestamp", &whole_seconds(now));
    put(object, &["status", "phase"], "Terminating".into());
}

fn finalizers_of(object: &Object) -> Vec<Value> {
    let list = object.at(FINALIZERS).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Sets the name of a LimitRange with neither `name` nor `generateName` to its uid (API-230).
pub fn prepare_limitrange(object: &mut Object) {
    if object.name().is_empty() {
        let uid = object.uid().to_owned();
        object.set_meta("name", &uid);
    }
}

/// Drops all members of a ServiceAccount's `secrets` items but the name.
pub fn prepare_serviceaccount(object: &mut Object) {
    let secrets = object.0.get_mut("secrets").and_then(Value::as_array_mut);
    let secrets = secrets.into_iter().flatten();
    for secret in secrets.filter_map(Value::as_object_mut) {
        secret.retain(|name, _| name == "name");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_secrets_are_kept() {
        let secrets = json!([{"name": "x", "namespace": "n", "kind": "k"}, {"namespace": "z"}]);
        let mut account = Object::default();
        account.0.insert("secrets".to_owned(), secrets);
        prepare_serviceaccount(&mut account);
        assert_eq!(account.0.get("secrets"), Some(&json!([{"name": "x"}, {}])));
    }
}
