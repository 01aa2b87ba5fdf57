//! The columns of nodes (API-218).

use std::collections::BTreeSet;

use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::Value;

use super::{NONE, UNKNOWN, computed, list, member, text, text_or};

/// Returns the columns of Nodes.
pub fn nodes() -> Vec<Column> {
    let status = computed(|node, _| status(node).into());
    let roles = computed(|node, _| text_or(&roles(node), NONE).into());
    let internal = computed(|node, _| address(node, "InternalIP").into());
    let external = computed(|node, _| address(node, "ExternalIP").into());
    let image = computed(|node, _| info(node, "osImage").into());
    let kernel = computed(|node, _| kernel(node).into());
    let runtime = computed(|node, _| info(node, "containerRuntimeVersion").into());
    let version = text("status.nodeInfo.kubeletVersion");
    vec![
        Column::name(),
        Column::text("Status", "Whether the node is ready to run pods.", status),
        Column::text("Roles", "Roles of the node, from its labels.", roles),
        Column::age(),
        Column::text(
            "Version",
            OfField("core.v1.NodeSystemInfo.kubeletVersion"),
            version,
        ),
        Column::text(
            "Internal-IP",
            OfField("core.v1.NodeStatus.addresses"),
            internal,
        )
        .wide(),
        Column::text(
            "External-IP",
            OfField("core.v1.NodeStatus.addresses"),
            external,
        )
        .wide(),
        Column::text("OS-Image", OfField("core.v1.NodeSystemInfo.osImage"), image).wide(),
        Column::text(
            "Kernel-Version",
            OfField("core.v1.NodeSystemInfo.kernelVersion"),
            kernel,
        )
        .wide(),
        Column::text(
            "Container-Runtime",
            OfField("core.v1.NodeSystemInfo.containerRuntimeVersion"),
            runtime,
        )
        .wide(),
    ]
}

fn status(node: &Object) -> String {
    let conditions = list(node, &["status", "conditions"]);
    let ready = conditions
        .iter()
        .rfind(|condition| member(condition, "type") == "Ready");
    let status = match ready.map(|condition| member(condition, "status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    match node.at(&["spec", "unschedulable"]) {
        Some(Value::Bool(true)) => format!("{status},SchedulingDisabled"),
        _ => status.to_owned(),
    }
}

fn roles(node: &Object) -> String {
    let labels = node.at(&["metadata", "labels"]).and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let roles = labels.filter_map(|(name, value)| match name.as_str() {
        "kubernetes.io/role" => value.as_str(),
        name => name.strip_prefix("node-role.kubernetes.io/"),
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    super::joined(roles, ",")
}

fn address<'n>(node: &'n Object, kind: &str) -> &'n str {
    let mut addresses = list(node, &["status", "addresses"]).iter();
    let found = addresses.find(|address| member(address, "type") == kind);
    found.map_or(NONE, |address| member(address, "address"))
}

fn info<'n>(node: &'n Object, name: &str) -> &'n str {
    text_or(node.text(&["status", "nodeInfo", name]), UNKNOWN)
}

fn kernel(node: &Object) -> String {
    let kernel = info(node, "kernelVersion");
    match node.text(&["status", "nodeInfo", "architecture"]) {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}
