//! Pure. Simulated nodes: their objects and their leases.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{Id, Kind, Objects};
use super::plan::{Plan, Step, holds, time};
use crate::api::object::{Object, whole_seconds};
use crate::registry::rest::simulated::NODE_LABEL;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";
/// The interval between renewals, as kubelets have it.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
/// The taint that admission gives to a new node, which is taken away once it is Ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The name of a node by its number, from 1.
pub(super) fn name(number: u32) -> String {
    format!("node-{number}")
}

/// The address of a node by its name: that of its number, or the last one.
pub(super) fn address(name: &str) -> String {
    let number = name
        .rsplit('-')
        .next()
        .and_then(|text| text.parse::<u16>().ok());
    let [high, low] = number.unwrap_or(u16::MAX - 1).to_be_bytes();
    format!("172.30.{high}.{low}")
}

/// A node to create.
pub(super) fn new(name: &str, now: Timestamp) -> Object {
    let now = whole_seconds(now);
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let room = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"});
    let labels = json!({
        NODE_LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    });
    let value = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": room, "allocatable": room,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": address(name)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "0",
                "osImage": "simulated", "containerRuntimeVersion": "taffrail://0",
                "kubeletVersion": "v1.36.0", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    });
    Object::of(value.as_object().cloned().unwrap_or_default())
}

/// The writes for a simulated node: its lease, and the end of its first taint.
pub(super) fn plan(objects: &Objects, node: &Object, now: Timestamp) -> Plan {
    let is_simulated = node.at(&["metadata", "labels", NODE_LABEL]).is_some();
    if !is_simulated || node.is_being_deleted() {
        return Plan::default();
    }
    let mut plan = Plan::of(untainted(node));
    let lease = objects.get(&Id::new(Kind::Lease, LEASES, node.name()));
    let renewed = lease.and_then(|lease| time(lease.at(&["spec", "renewTime"])));
    let due = renewed.map(|renewed| renewed + RENEWED_EVERY);
    let spec = json!({
        "holderIdentity": node.name(), "leaseDurationSeconds": 40,
        "renewTime": format!("{now:.6}"),
    });
    match (lease, due) {
        (Some(_), Some(due)) if now < due => plan.again_at(due, now),
        (Some(lease), _) => {
            let step = Step::patch(Kind::Lease, lease, json!({"spec": spec}));
            plan.steps.push(step);
            plan.again = Some(RENEWED_EVERY);
        }
        (None, _) => {
            let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node.name(),
                "uid": node.uid()}]);
            let metadata =
                json!({"name": node.name(), "namespace": LEASES, "ownerReferences": owner});
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": metadata, "spec": spec});
            let lease = Object::of(lease.as_object().cloned().unwrap_or_default());
            plan.steps.push(Step::Create(Kind::Lease, lease));
            plan.again = Some(RENEWED_EVERY);
        }
    }
    plan
}

/// Takes the taint of a new node away, if it is Ready.
fn untainted(node: &Object) -> Option<Step> {
    let taints = node.items(&["spec", "taints"]);
    let is_first = |taint: &Value| taint.get("key").and_then(Value::as_str) == Some(NOT_READY);
    if !holds(node, "Ready") || !taints.iter().any(is_first) {
        return None;
    }
    let others: Vec<&Value> = taints.iter().filter(|taint| !is_first(taint)).collect();
    let others = match others.is_empty() {
        true => Value::Null,
        false => json!(others),
    };
    Some(Step::patch(
        Kind::Node,
        node,
        json!({"spec": {"taints": others}}),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_loses_its_taint_and_gets_a_lease_that_is_renewed() {
        let mut node = new("node-1", Timestamp::UNIX_EPOCH);
        assert_eq!(address("node-258"), "172.30.1.2");
        let taints = json!([{"key": NOT_READY, "effect": "NoSchedule"}]);
        crate::api::object::put(&mut node, &["spec", "taints"], taints);
        let mut objects = Objects::default();
        let first = plan(&objects, &node, Timestamp::UNIX_EPOCH);
        let [Step::Patch { patch, .. }, Step::Create(Kind::Lease, lease)] = &*first.steps else {
            panic!("{first:?}");
        };
        assert_eq!(patch["spec"]["taints"], Value::Null);
        objects.put(Id::of(Kind::Lease, lease), lease.clone());
        crate::api::object::remove(&mut node, &["spec", "taints"]);
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(
            plan(&objects, &node, at(4)).again,
            Some(Duration::from_secs(6))
        );
        assert_eq!(plan(&objects, &node, at(4)).steps, []);
        assert_eq!(plan(&objects, &node, at(10)).steps.len(), 1);
    }
}
