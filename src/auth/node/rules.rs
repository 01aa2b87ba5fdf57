//! The rules by which requests of nodes are allowed (AC-42..AC-51). Pure.

use std::borrow::Cow;

use super::{Kind, Named, node_of};
use crate::api::selector::Selection;
use crate::api::text::quoting::go_quote;
use crate::auth::Attributes;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'r> {
    /// The request is allowed.
    Allowed,
    /// Others decide. The reason may be empty.
    NoOpinion(Cow<'static, str>),
    /// The request is allowed if the object is related to the node. Otherwise others decide, and
    /// [`unrelated`] is the reason.
    IfRelated(Question<'r>),
}

/// Whether an object is related to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'r> {
    /// The object.
    pub object: Named<'r>,
    /// The name of the node.
    pub node: &'r str,
}

/// Returns why a request for an object is not allowed that is not related to the node.
pub fn unrelated(node: &str) -> String {
    format!("no relationship found between node '{node}' and this object")
}

/// Judges a request. It never denies one: others may allow what this does not.
pub fn judge<'r>(request: &Attributes<'r>) -> Verdict<'r> {
    let Some(node) = node_of(request.user) else {
        return no_reason();
    };
    if node.is_empty() {
        let user = go_quote(&request.user.name);
        return because(format!("unknown node for user {user}"));
    }
    let request = Request {
        node,
        asked: request,
    };
    if !request.asked.is_resource_request {
        return no_reason();
    }
    match (request.asked.api_group, request.asked.resource) {
        ("", "secrets") => request.reads(Kind::Secret),
        ("", "configmaps") => request.reads(Kind::ConfigMap),
        ("", "persistentvolumeclaims") if request.asked.subresource == "status" => {
            request.updates_status()
        }
        ("", "persistentvolumeclaims") => request.gets(Kind::Claim),
        ("", "persistentvolumes") => request.gets(Kind::Volume),
        ("resource.k8s.io", "resourceclaims") => request.gets(Kind::ResourceClaim),
        ("storage.k8s.io", "volumeattachments") => request.gets(Kind::Attachment),
        ("", "serviceaccounts") => request.of_account(),
        ("coordination.k8s.io", "leases") => request.of_lease(),
        ("storage.k8s.io", "csinodes") => request.of_csi_node(),
        ("resource.k8s.io", "resourceslices") => request.of_slice(),
        ("", "nodes") => request.of_node(),
        ("", "pods") => request.of_pod(),
        (group, resource) => match is_allowed_to_all(request.asked, (group, resource)) {
            true => Verdict::Allowed,
            false => no_reason(),
        },
    }
}

fn no_reason<'r>() -> Verdict<'r> {
    because("")
}

fn because<'r>(reason: impl Into<Cow<'static, str>>) -> Verdict<'r> {
    Verdict::NoOpinion(reason.into())
}

/// Returns whether all nodes are allowed a request for a resource without own rules (AC-51).
fn is_allowed_to_all(request: &Attributes<'_>, resource: (&str, &str)) -> bool {
    let verbs: &[&str] = match resource {
        ("authentication.k8s.io", "tokenreviews")
        | ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews") => {
            &["create"]
        }
        ("", "services") | ("storage.k8s.io", "csidrivers") | ("node.k8s.io", "runtimeclasses") => {
            &["get", "list", "watch"]
        }
        ("", "endpoints") => &["get"],
        ("" | "events.k8s.io", "events") => &["create", "update", "patch"],
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &["create", "get", "list", "watch"]
        }
        _ => &[],
    };
    request.subresource.is_empty() && verbs.contains(&request.verb)
}

/// A request of a node for a resource.
struct Request<'a, 'r> {
    node: &'r str,
    asked: &'a Attributes<'r>,
}

impl<'r> Request<'_, 'r> {
    fn if_related(&self, kind: Kind) -> Verdict<'r> {
        let Attributes {
            namespace, name, ..
        } = *self.asked;
        if name.is_empty() {
            return because("No Object name found");
        }
        let object = Named {
            kind,
            namespace,
            name,
        };
        let node = self.node;
        Verdict::IfRelated(Question { object, node })
    }

    /// AC-44: one object, by name.
    fn reads(&self, kind: Kind) -> Verdict<'r> {
        if !matches!(self.asked.verb, "get" | "list" | "watch") {
            return because("can only read resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return because("cannot read subresource");
        }
        if self.asked.namespace.is_empty() {
            return because("can only read namespaced object of this type");
        }
        self.if_related(kind)
    }

    /// AC-45.
    fn gets(&self, kind: Kind) -> Verdict<'r> {
        if self.asked.verb != "get" {
            return because("can only get individual resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return because("cannot get subresource");
        }
        self.if_related(kind)
    }

    /// AC-45: the status of a claim.
    fn updates_status(&self) -> Verdict<'r> {
        match self.asked.verb {
            "update" | "patch" => self.if_related(Kind::Claim),
            _ => because("can only get/update/patch this type"),
        }
    }

    /// AC-48.
    fn of_account(&self) -> Verdict<'r> {
        if self.asked.verb == "get" && self.asked.subresource.is_empty() {
            return self.if_related(Kind::ServiceAccount);
        }
        if self.asked.verb != "create" || self.asked.name.is_empty() {
            return because("can only create tokens for individual service accounts");
        }
        if self.asked.subresource != "token" {
            return because("can only create token subresource of serviceaccount");
        }
        self.if_related(Kind::ServiceAccount)
    }

    /// AC-49. The name of a new lease is not known here; NodeRestriction checks it.
    fn of_lease(&self) -> Verdict<'r> {
        if !is_own_verb(self.asked.verb) {
            return because("can only get, create, update, patch, or delete a node lease");
        }
        if self.asked.namespace != LEASES {
            let namespace = go_quote(LEASES);
            return because(format!(
                "can only access leases in the {namespace} system namespace"
            ));
        }
        if self.asked.verb != "create" && self.asked.name != self.node {
            let why = "can only access node lease with the same name as the requesting node";
            return because(why);
        }
        Verdict::Allowed
    }

    /// AC-49.
    fn of_csi_node(&self) -> Verdict<'r> {
        if !is_own_verb(self.asked.verb) {
            return because("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.asked.subresource.is_empty() {
            return because("cannot authorize CSINode subresources");
        }
        if self.asked.verb != "create" && self.asked.name != self.node {
            return because("can only access CSINode with the same name as the requesting node");
        }
        Verdict::Allowed
    }

    /// AC-50.
    fn of_slice(&self) -> Verdict<'r> {
        if !self.asked.subresource.is_empty() {
            return because("cannot authorize ResourceSlice subresources");
        }
        match self.asked.verb {
            "create" => Verdict::Allowed,
            "get" | "update" | "patch" | "delete" => self.if_related(Kind::Slice),
            "list" | "watch" | "deletecollection" if self.selects_own() => Verdict::Allowed,
            "list" | "watch" | "deletecollection" => because(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => because(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                 create, update, patch, delete, deletecollection",
            ),
        }
    }

    /// Whether a field selector demands this node as `spec.nodeName` (AC-32: a selector that can't
    /// be parsed demands nothing).
    fn selects_own(&self) -> bool {
        Selection::demands(self.asked.field_selector, "spec.nodeName", self.node)
    }

    /// AC-47. NodeRestriction narrows the writes.
    fn of_node(&self) -> Verdict<'r> {
        let node = self.node;
        match (self.asked.subresource, self.asked.verb, self.asked.name) {
            ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => {
                Verdict::Allowed
            }
            ("", "get" | "list" | "watch", "") => because(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            ("", "get" | "list" | "watch", name) if name == node => Verdict::Allowed,
            ("", "get" | "list" | "watch", name) => because(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
            _ => no_reason(),
        }
    }

    /// AC-46. NodeRestriction narrows the writes.
    fn of_pod(&self) -> Verdict<'r> {
        match (self.asked.subresource, self.asked.verb) {
            ("", "get") => self.if_related(Kind::Pod),
            ("", "list" | "watch") if self.selects_own() => Verdict::Allowed,
            ("", "list" | "watch") if !self.asked.name.is_empty() => self.if_related(Kind::Pod),
            ("", "list" | "watch") => {
                because("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Verdict::Allowed
            }
            _ => no_reason(),
        }
    }
}

/// Whether this is a verb that a node may use on its own lease or CSINode.
fn is_own_verb(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}
