//! Pods, their status and their eviction (AC-55, AC-56).

use serde::Deserialize;
use serde_json::Value;

use super::nodes::labels;
use super::{Checked, NodeRestriction, Request, absent, operation, same};
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::auth::node::references::Pod;
use crate::auth::node::{Kind, MIRROR};

const NODE_NAME: [&str; 2] = ["spec", "nodeName"];

/// Volumes that refer to no object of the API.
const LOCAL_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volumes that refer to objects, and to which.
const VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    (
        "ephemeral",
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to objects, and to which.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    (
        "serviceAccountToken",
        "serviceaccounts (via projected volumes)",
    ),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

impl NodeRestriction {
    /// Checks a write of a whole pod.
    pub(super) async fn check_pod(&self, request: &Request<'_>) -> Checked {
        let own = request.quoted();
        if let Some(pod) = request.object.filter(|_| request.creates()) {
            check_owner(request, pod)?;
            self.check_uid(request, pod).await?;
            return check_references(request, pod);
        }
        if request.deletes() {
            let pod = self.pod(request, request.attributes.name).await?;
            return match pod.text(&NODE_NAME) == request.node {
                true => Ok(()),
                false => request.refuse(format!(
                    "node {own} can only delete pods with spec.nodeName set to itself"
                )),
            };
        }
        let operation = go_quote(operation(request.attributes));
        request.refuse(format!(
            "unexpected operation {operation}, node {own} can only create and delete mirror pods"
        ))
    }

    /// Checks an eviction.
    pub(super) async fn check_eviction(&self, request: &Request<'_>) -> Checked {
        if !request.creates() {
            let operation = operation(request.attributes);
            return request.refuse(format!("unexpected operation {operation}"));
        }
        let sent = request.object.map_or("", Object::name);
        let mut names = [request.attributes.name, sent].into_iter();
        let Some(name) = names.find(|name| !name.is_empty()) else {
            return request.refuse("could not determine pod from request data");
        };
        let pod = self.pod(request, name).await?;
        match pod.text(&NODE_NAME) == request.node {
            true => Ok(()),
            false => request.refuse(format!(
                "node {} can only evict pods with spec.nodeName set to itself",
                request.node
            )),
        }
    }

    /// Returns a pod of the namespace of the request.
    ///
    /// # Errors
    /// 404 without it.
    pub(super) async fn pod(
        &self,
        request: &Request<'_>,
        name: &str,
    ) -> Result<Object, Box<Status>> {
        let pods = &self.objects.pods;
        let pod = pods.get(request.attributes.namespace, name).await?;
        pod.ok_or_else(|| absent("pod", name))
    }

    /// Checks that the owner of a new pod is the node that is there.
    async fn check_uid(&self, request: &Request<'_>, pod: &Object) -> Checked {
        let node = self.objects.nodes.get(None, request.node).await?;
        let node = node.ok_or_else(|| absent("node", request.node))?;
        let owner = owners(pod).first().map(|owner| text(owner, "uid"));
        let (owner, uid) = (owner.unwrap_or_default(), node.uid());
        match owner == uid {
            true => Ok(()),
            false => request.refuse(format!(
                "node {} UID mismatch: expected {owner} got {uid}",
                request.node
            )),
        }
    }
}

fn owners(pod: &Object) -> &[Value] {
    pod.items(&["metadata", "ownerReferences"])
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Checks that a new pod is a mirror pod of the node, and belongs to it.
fn check_owner(request: &Request<'_>, pod: &Object) -> Checked {
    let own = request.quoted();
    if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
        return request.refuse(format!(
            "pod does not have {} annotation, node {own} can only create mirror pods",
            go_quote(MIRROR)
        ));
    }
    let refused = |what: &str| request.refuse(format!("node {own} {what}"));
    if pod.text(&NODE_NAME) != request.node {
        return refused("can only create pods with spec.nodeName set to itself");
    }
    let owner = match owners(pod) {
        [] => return refused("can only create pods with an owner reference set to itself"),
        [owner] => owner,
        _ => return refused("can only create pods with a single owner reference set to itself"),
    };
    let is_self = text(owner, "apiVersion") == "v1"
        && text(owner, "kind") == "Node"
        && text(owner, "name") == request.node;
    if !is_self {
        return refused("can only create pods with an owner reference set to itself");
    }
    let is_set = |name: &str| owner.get(name).and_then(Value::as_bool) == Some(true);
    if !is_set("controller") {
        return refused("can only create pods with a controller owner reference set to itself");
    }
    if is_set("blockOwnerDeletion") {
        return refused("must not set blockOwnerDeletion on an owner reference");
    }
    Ok(())
}

/// Checks that a new pod refers to no object.
fn check_references(request: &Request<'_>, pod: &Object) -> Checked {
    match referred(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => request.refuse(format!(
            "node {} can not create pods that reference {what}",
            request.quoted()
        )),
        Err(why) => request.refuse(format!(
            "error checking mirror pod for API references: {why}"
        )),
    }
}

/// Returns the resource that a pod refers to, the first one in Kubernetes' order.
fn referred(pod: &Object) -> Result<Option<&'static str>, String> {
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    let read = Pod::deserialize(&pod.0).map_err(|error| error.to_string())?;
    for (kind, resource) in [(Kind::Secret, "secrets"), (Kind::ConfigMap, "configmaps")] {
        if read.refers_to(kind) {
            return Ok(Some(resource));
        }
    }
    if !pod.items(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in pod.items(&["spec", "volumes"]) {
        let name = go_quote(text(volume, "name"));
        if first_of(volume, LOCAL_VOLUMES.map(|name| (name, ""))).is_some() {
            continue;
        }
        if let Some(resource) = first_of(volume, VOLUMES) {
            return Ok(Some(resource));
        }
        let Some(projected) = volume.get("projected") else {
            return Err(format!("unknown volume type for volume  {name}"));
        };
        let sources = projected.get("sources").and_then(Value::as_array);
        for source in sources.into_iter().flatten() {
            match first_of(source, PROJECTED) {
                Some(resource) => return Ok(Some(resource)),
                None if is_set(source, "downwardAPI") => {}
                None => return Err(format!("unknown source for projected volume {name}")),
            }
        }
    }
    Ok(None)
}

fn is_set(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|member| !member.is_null())
}

/// Returns the second text of the first pair whose member is set.
fn first_of<const N: usize>(
    value: &Value,
    members: [(&str, &'static str); N],
) -> Option<&'static str> {
    let mut members = members.into_iter();
    let found = members.find(|(name, _)| is_set(value, name));
    found.map(|(_, resource)| resource)
}

/// Checks an update of the status of a pod.
pub(super) fn check_status(request: &Request<'_>) -> Checked {
    let (Some(old), Some(new)) = (request.attributes.old_object, request.object) else {
        return request.unexpected();
    };
    if !request.updates() {
        return request.unexpected();
    }
    let refused = |what: &str| request.refuse(format!("node {} {what}", request.quoted()));
    if old.text(&NODE_NAME) != request.node {
        return refused("can only update pod status for pods with spec.nodeName set to itself");
    }
    if labels(old) != labels(new) {
        return refused("cannot update labels through pod status");
    }
    let is_same = |name: &str| same(old.at(&["status", name]), new.at(&["status", name]));
    if !is_same("resourceClaimStatuses") {
        return refused("cannot update resource claim statues");
    }
    if !is_same("extendedResourceClaimStatus") {
        return refused("cannot update extended resource claim status");
    }
    Ok(())
}
