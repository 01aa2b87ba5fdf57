//! Nodes themselves (AC-53, AC-54).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Checked, Request, same};
use crate::api::object::Object;
use crate::api::text::quoting::go_quote;

const CONFIG_SOURCE: [&str; 2] = ["spec", "configSource"];

/// The labels of Kubernetes that a kubelet sets on its own node.
const LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The namespaces of labels that kubelets are free to set.
const FREE: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The namespace of labels by which administrators separate nodes.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Checks a write of a node, or of its status.
pub(super) fn check(request: &Request<'_>) -> Checked {
    let (own, asked) = (request.quoted(), request.attributes.name);
    if asked != request.node {
        let other = go_quote(asked);
        return request.refuse(format!("node {own} is not allowed to modify node {other}"));
    }
    match (request.attributes.old_object, request.object) {
        (None, Some(node)) if request.creates() => check_new(request, node),
        (Some(old), Some(node)) if request.updates() => check_changed(request, old, node),
        _ => Ok(()),
    }
}

fn check_new(request: &Request<'_>, node: &Object) -> Checked {
    let own = request.quoted();
    if config_source(node).is_some() {
        return request.refuse(format!(
            "node {own} is not allowed to create pods with a non-nil configSource"
        ));
    }
    match forbidden(&changed_labels(&Map::new(), labels(node))) {
        None => Ok(()),
        Some(labels) => request.refuse(format!(
            "node {own} is not allowed to set the following labels: {labels}"
        )),
    }
}

fn check_changed(request: &Request<'_>, old: &Object, node: &Object) -> Checked {
    let own = request.quoted();
    let source = config_source(node);
    // Old kubelets drop the member.
    if source.is_some() && !same(source, config_source(old)) {
        return request.refuse(format!(
            "node {own} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    let is_same = |path: [&str; 2]| same(node.at(&path), old.at(&path));
    if !is_same(["spec", "taints"]) {
        return request.refuse(format!("node {own} is not allowed to modify taints"));
    }
    if !is_same(["metadata", "ownerReferences"]) {
        return request.refuse(format!(
            "node {own} is not allowed to modify ownerReferences"
        ));
    }
    match forbidden(&changed_labels(labels(old), labels(node))) {
        None => Ok(()),
        Some(labels) => request.refuse(format!("is not allowed to modify labels: {labels}")),
    }
}

fn config_source(node: &Object) -> Option<&Value> {
    node.at(&CONFIG_SOURCE).filter(|source| !source.is_null())
}

/// Returns the labels of an object.
pub(super) fn labels(object: &Object) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let labels = object.at(&["metadata", "labels"]);
    labels.and_then(Value::as_object).unwrap_or(&NONE)
}

/// Returns the keys of labels that were added, removed or changed.
fn changed_labels<'l>(
    old: &'l Map<String, Value>,
    new: &'l Map<String, Value>,
) -> BTreeSet<&'l str> {
    let keys = old.keys().chain(new.keys());
    let changed = keys.filter(|key| old.get(*key) != new.get(*key));
    changed.map(String::as_str).collect()
}

/// Returns those of the labels that a node may not set.
fn forbidden(keys: &BTreeSet<&str>) -> Option<String> {
    let keys = keys.iter().copied().filter(|key| is_forbidden(key));
    let keys: Vec<&str> = keys.collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

fn is_forbidden(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |parent: &str| {
        let below = namespace.strip_suffix(parent);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    };
    let is_of_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    let is_free = LABELS.contains(&key) || FREE.iter().any(|parent| is_in(parent));
    is_in(RESTRICTED) || (is_of_kubernetes && !is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_are_not_free_ac_53() {
        for free in [
            "a",
            "example.com/a",
            "xkubernetes.io/a",
            "xk8s.io/a",
            "kubernetes.io.example.com/a",
            "kubelet.kubernetes.io/a",
            "a.kubelet.kubernetes.io/a",
            "node.kubernetes.io/a",
            "a.node.kubernetes.io/a",
        ] {
            assert!(!is_forbidden(free), "{free}");
        }
        assert!(!LABELS.iter().any(|label| is_forbidden(label)));
        for other in [
            "kubernetes.io/a",
            "k8s.io/a",
            "a.k8s.io/hostname",
            "a.kubernetes.io/a",
            "node-role.kubernetes.io/control-plane",
            "node-restriction.kubernetes.io/a",
            "a.node-restriction.kubernetes.io/a",
            "xnode.kubernetes.io/a",
            "topology.kubernetes.io/rack",
        ] {
            assert!(is_forbidden(other), "{other}");
        }
    }
}
