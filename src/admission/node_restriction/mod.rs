//! NodeRestriction (access.md 10): a kubelet changes its own node and its own pods alone.
//!
//! The node authorizer allows kubelets requests whose objects it does not know. This plugin looks
//! at the objects. As in kube-apiserver it works in the first stage, so it sees what was sent, and
//! changes nothing.

mod nodes;
mod pods;
mod tokens;

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::certificates::common_name;
use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Operation, Plugin};
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::auth::Authorizer;
use crate::auth::node::node_of;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The signers of certificates of kubelets.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// The members of a claim that a node may change (AC-56).
const CLAIM_STATUS: [&str; 4] = [
    "capacity",
    "conditions",
    "allocatedResources",
    "allocatedResourceStatuses",
];

/// The objects that the plugin reads.
pub(super) struct NodeObjects {
    pub(super) pods: Arc<dyn ResourceClient>,
    pub(super) nodes: Arc<dyn ResourceClient>,
    pub(super) claims: Arc<dyn ResourceClient>,
    pub(super) volumes: Arc<dyn ResourceClient>,
    pub(super) drivers: Arc<dyn ResourceClient>,
}

/// The plugin.
pub(super) struct NodeRestriction {
    objects: NodeObjects,
    authorizer: Arc<dyn Authorizer>,
}

/// A request of a node.
struct Request<'w> {
    /// The name of the node.
    node: &'w str,
    attributes: &'w Attributes<'w>,
    /// The new object, on create and update.
    object: Option<&'w Object>,
}

/// The outcome of a check.
type Checked = Result<(), Box<Status>>;

impl NodeRestriction {
    /// Creates the plugin. `authorizer` decides about audiences of tokens.
    pub(super) fn new(objects: NodeObjects, authorizer: Arc<dyn Authorizer>) -> NodeRestriction {
        NodeRestriction {
            objects,
            authorizer,
        }
    }

    async fn check(&self, request: &Request<'_>) -> Checked {
        if request.node.is_empty() {
            let user = go_quote(&request.attributes.user.name);
            return request.refuse(format!("could not determine node from user {user}"));
        }
        let definition = request.attributes.definition;
        let subresource = request.attributes.subresource.unwrap_or_default();
        match (&*definition.group, &*definition.plural) {
            ("", "pods") => match subresource {
                "" => self.check_pod(request).await,
                "status" => pods::check_status(request),
                "eviction" => self.check_eviction(request).await,
                other => request.refuse(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    go_quote(other)
                )),
            },
            ("", "nodes") => nodes::check(request),
            ("", "persistentvolumeclaims") => match subresource {
                "status" => request.check_claim_status(),
                _ => request.refuse("may only update PVC status"),
            },
            ("", "serviceaccounts") if subresource == "token" => self.check_token(request).await,
            ("coordination.k8s.io", "leases") => request.check_lease(),
            ("storage.k8s.io", "csinodes") => request.check_csi_node(),
            ("resource.k8s.io", "resourceslices") => request.check_slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => request.check_certificate(),
            _ => Ok(()),
        }
    }
}

impl Request<'_> {
    fn refuse(&self, why: impl AsRef<str>) -> Checked {
        Err(self.attributes.forbidden(self.object, why.as_ref()))
    }

    /// The name of the node in quotes, as the texts have it.
    fn quoted(&self) -> String {
        go_quote(self.node)
    }

    fn creates(&self) -> bool {
        matches!(self.attributes.operation, Operation::Create(_))
    }

    fn updates(&self) -> bool {
        matches!(self.attributes.operation, Operation::Update(_))
    }

    fn deletes(&self) -> bool {
        matches!(self.attributes.operation, Operation::Delete(_))
    }

    /// Refuses an operation that the resource does not have.
    fn unexpected(&self) -> Checked {
        let operation = go_quote(operation(self.attributes));
        self.refuse(format!("unexpected operation {operation}"))
    }

    /// The name of a new object in the object itself, otherwise that of the request.
    fn name(&self) -> &str {
        match self.object {
            Some(object) if self.creates() => object.name(),
            _ => self.attributes.name,
        }
    }

    fn check_lease(&self) -> Checked {
        if self.attributes.namespace.unwrap_or_default() != LEASES {
            let namespace = go_quote(LEASES);
            let why = format!("can only access leases in the {namespace} system namespace");
            return self.refuse(why);
        }
        match self.name() == self.node {
            true => Ok(()),
            false => {
                self.refuse("can only access node lease with the same name as the requesting node")
            }
        }
    }

    fn check_csi_node(&self) -> Checked {
        match self.name() == self.node {
            true => Ok(()),
            false => {
                self.refuse("can only access CSINode with the same name as the requesting node")
            }
        }
    }

    /// The authorizer checks changes, because it knows the node of the slice that is there.
    fn check_slice(&self) -> Checked {
        let (slice, verb) = match (self.creates(), self.deletes()) {
            (true, _) => (self.object, "create"),
            (_, true) => (self.attributes.old_object, "delete"),
            (false, false) => return Ok(()),
        };
        let node = slice.map_or("", |slice| slice.text(&["spec", "nodeName"]));
        match node == self.node {
            true => Ok(()),
            false => self.refuse(format!(
                "can only {verb} ResourceSlice with the same NodeName as the requesting node"
            )),
        }
    }

    fn check_certificate(&self) -> Checked {
        let Some(request) = self.object.filter(|_| self.creates()) else {
            return Ok(());
        };
        if !KUBELET_SIGNERS.contains(&request.text(&["spec", "signerName"])) {
            return Ok(());
        }
        let expected = format!("system:node:{}", self.node);
        match common_name(request) {
            Err(why) => self.refuse(format!("unable to parse csr: {why}")),
            Ok(name) if name == expected => Ok(()),
            Ok(_) => self.refuse(format!("can only create a node CSR with CN={expected}")),
        }
    }

    fn check_claim_status(&self) -> Checked {
        let (Some(old), Some(new)) = (self.attributes.old_object, self.object) else {
            return self.unexpected();
        };
        if !self.updates() {
            return self.unexpected();
        }
        match same(Some(&fixed_of_claim(old)), Some(&fixed_of_claim(new))) {
            true => Ok(()),
            false => self.refuse(format!(
                "node {} is not allowed to update fields other than status.quantity and \
                 status.conditions",
                self.quoted()
            )),
        }
    }
}

/// Returns the parts of a claim that a node may not change.
fn fixed_of_claim(claim: &Object) -> Value {
    let mut parts = claim.0.clone();
    if let Some(Value::Object(metadata)) = parts.get_mut("metadata") {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    if let Some(Value::Object(status)) = parts.get_mut("status") {
        CLAIM_STATUS.iter().for_each(|name| {
            status.remove(*name);
        });
    }
    Value::Object(parts)
}

/// Whether two values are the same where absent and empty ones are.
fn same(one: Option<&Value>, two: Option<&Value>) -> bool {
    let is_empty = |value: &&Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.values().all(|value| same(Some(value), None)),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match (
        one.filter(|one| !is_empty(one)),
        two.filter(|two| !is_empty(two)),
    ) {
        (None, None) => true,
        (Some(Value::Object(one)), Some(Value::Object(two))) => {
            let both = one.iter().chain(two.iter()).map(|(name, _)| name);
            both.into_iter()
                .all(|name| same(one.get(name), two.get(name)))
        }
        (Some(Value::Array(one)), Some(Value::Array(two))) => {
            let mut pairs = one.iter().zip(two);
            one.len() == two.len() && pairs.all(|(one, two)| same(Some(one), Some(two)))
        }
        (one, two) => one == two,
    }
}

/// The name of an operation.
fn operation(attributes: &Attributes<'_>) -> &'static str {
    match attributes.operation {
        Operation::Create(_) => "CREATE",
        Operation::Update(_) => "UPDATE",
        Operation::Delete(_) => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// The 404 of an object that the plugin looked up, which names its kind.
fn absent(kind: &str, name: &str) -> Box<Status> {
    let definition = ResourceDefinition::named("", "v1", kind, kind);
    Box::new(Status::not_found(&definition, name))
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        !matches!(attributes.operation, Operation::Connect) && node_of(attributes.user).is_some()
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for NodeRestriction {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(node) = node_of(attributes.user) else {
                return Ok(());
            };
            let request = Request {
                node,
                attributes,
                object: object.as_deref(),
            };
            self.check(&request).await
        }
        .boxed()
    }

    fn changes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_empty_values_are_the_same() {
        for (one, two) in [
            (json!({"a": {}}), json!({})),
            (json!({"a": [], "b": ""}), json!({"c": null})),
            (json!({"a": {"b": {"c": null}}}), json!({"a": null})),
            (json!([{"a": 1, "b": ""}]), json!([{"a": 1}])),
        ] {
            assert!(same(Some(&one), Some(&two)), "{one} {two}");
            assert!(same(Some(&two), Some(&one)), "{two} {one}");
        }
        for (one, two) in [
            (json!({"a": 0}), json!({})),
            (json!({"a": false}), json!({})),
            (json!([1, 2]), json!([2, 1])),
            (json!([1]), json!([1, 2])),
            (json!({"a": "b"}), json!({"a": "c"})),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 1}})),
        ] {
            assert!(!same(Some(&one), Some(&two)), "{one} {two}");
            assert!(!same(Some(&two), Some(&one)), "{two} {one}");
        }
    }

    /// AC-56: a node changes some of the status of a claim, and nothing else.
    #[test]
    fn the_rest_of_a_claim_is_fixed_ac_56() {
        let claim = |value: Value| Object::of(value.as_object().cloned().unwrap_or_default());
        let old = json!({"metadata": {"name": "c", "resourceVersion": "1"},
            "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
        let is_same = |new: Value| {
            let (old, new) = (
                fixed_of_claim(&claim(old.clone())),
                fixed_of_claim(&claim(new)),
            );
            same(Some(&old), Some(&new))
        };
        let changed = |pointer: &str, name: &str, value: Value| {
            let mut new = old.clone();
            if let Some(parent) = new.pointer_mut(pointer) {
                parent[name] = value;
            }
            new
        };
        for name in CLAIM_STATUS {
            assert!(
                is_same(changed("/status", name, json!({"a": "b"}))),
                "{name}"
            );
        }
        assert!(is_same(changed("/metadata", "resourceVersion", json!("2"))));
        for (pointer, name) in [
            ("/status", "phase"),
            ("/status", "currentVolumeAttributesClassName"),
            ("/spec", "volumeName"),
            ("/metadata", "labels"),
            ("/metadata", "finalizers"),
        ] {
            assert!(!is_same(changed(pointer, name, json!(["a"]))), "{name}");
        }
    }
}
