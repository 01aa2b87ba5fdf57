//! Pure. Pods that run without a kubelet: they are bound, reported Running and Ready or finished,
//! and removed when they are deleted.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::nodes;
use super::objects::{Kind, Objects, controller_of};
use super::placement::fits;
use super::plan::{Condition, Plan, Step, condition, holds, is_finished, with_conditions};
use crate::api::object::{Object, whole_seconds};
use crate::registry::rest::simulated::{POD_BITS, POD_NETWORK, RUNTIME};

/// The scheduler whose pods are bound. Those of others wait for theirs.
const SCHEDULER: &str = "default-scheduler";

/// The nodes and addresses that pods get one after another.
#[derive(Debug, Default)]
pub(super) struct Turns {
    node: usize,
    address: Option<u32>,
}

impl Turns {
    /// The next of these nodes.
    fn node<'n>(&mut self, nodes: &[&'n str]) -> Option<&'n str> {
        self.node = self.node.wrapping_add(1);
        nodes.get(self.node.checked_rem(nodes.len())?).copied()
    }

    /// The next address, after those of all pods. After the last one comes the first.
    fn address(&mut self, objects: &Objects) -> String {
        let before = self.address.unwrap_or_else(|| {
            let pods = objects.of_kind(Kind::Pod);
            let addresses = pods.filter_map(|(_, pod)| {
                let address: Ipv4Addr = pod.text(&["status", "podIP"]).parse().ok()?;
                Some(u32::from(address) ^ POD_NETWORK).filter(|low| *low < POD_BITS)
            });
            addresses.max().unwrap_or_default()
        });
        let low = (before + 1) % POD_BITS;
        self.address = Some(low);
        Ipv4Addr::from(POD_NETWORK | low).to_string()
    }
}

/// The writes for a pod.
pub(super) fn plan(objects: &Objects, pod: &Object, turns: &mut Turns, now: Timestamp) -> Plan {
    let node = pod.text(&["spec", "nodeName"]);
    match (node, pod.text(&["status", "phase"])) {
        ("", _) if pod.is_being_deleted() => Plan::default(),
        ("", _) => bound(objects, pod, turns, now),
        _ if pod.is_being_deleted() => Plan::of(ended(pod, now)),
        (_, "" | "Pending") => Plan::of(started(objects, pod, turns, now)),
        (_, "Running") => Plan::of(goes_on(pod, now)),
        _ => Plan::default(),
    }
}

/// Binds a pod to the next node that it fits, and makes a node where the cluster has none.
fn bound(objects: &Objects, pod: &Object, turns: &mut Turns, now: Timestamp) -> Plan {
    let is_gated = !pod.items(&["spec", "schedulingGates"]).is_empty();
    let scheduler = pod.text(&["spec", "schedulerName"]);
    if is_gated || !matches!(scheduler, "" | SCHEDULER) || is_finished(pod) {
        return Plan::default();
    }
    let all: Vec<_> = objects.of_kind(Kind::Node).map(|(_, node)| node).collect();
    if all.is_empty() {
        let node = nodes::new(&nodes::name(1), now);
        return Plan::of([Step::Create(Kind::Node, node)]);
    }
    let fit = all
        .iter()
        .filter(|node| !node.is_being_deleted() && fits(pod, node));
    let fit: Vec<&str> = fit.map(|node| node.name()).collect();
    if let Some(node) = turns.node(&fit) {
        return Plan::of([Step::Bind {
            id: super::Id::of(Kind::Pod, pod),
            uid: pod.uid().to_owned(),
            node: node.to_owned(),
        }]);
    }
    let count = all.len();
    let message = format!("0/{count} nodes are available: none fits the pod.");
    let unschedulable = Condition::new("PodScheduled", false, "Unschedulable").saying(message);
    let conditions = with_conditions(pod, &[unschedulable], now);
    Plan::of(Step::status(
        Kind::Pod,
        pod,
        json!({"conditions": conditions}),
    ))
}

/// Removes a deleted pod. One that finalizers hold is reported as ended first, because its
/// controller waits for that.
fn ended(pod: &Object, now: Timestamp) -> Vec<Step> {
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]);
    let mut steps = Vec::new();
    if !pod.finalizers().is_empty() && !is_finished(pod) {
        let ready = ["Ready", "ContainersReady"];
        let conditions = ready.map(|kind| Condition::new(kind, false, "PodFailed"));
        let status = json!({
            "phase": "Failed", "conditions": with_conditions(pod, &conditions, now),
            "containerStatuses": containers(pod, "containers", &terminated(now, 143, "Error")),
        });
        return Step::status(Kind::Pod, pod, status).into_iter().collect();
    }
    if grace.and_then(Value::as_i64) != Some(0) {
        steps.push(Step::Delete {
            id: super::Id::of(Kind::Pod, pod),
            uid: pod.uid().to_owned(),
            grace: Some(0),
        });
    }
    steps
}

/// Reports a pod as Running.
fn started(objects: &Objects, pod: &Object, turns: &mut Turns, now: Timestamp) -> Option<Step> {
    let node = pod.text(&["spec", "nodeName"]);
    let node_id = super::Id::new(Kind::Node, "", node);
    let host = objects.get(&node_id).and_then(|node| {
        let mut addresses = node.items(&["status", "addresses"]).iter();
        // linear: a node has a few addresses.
        let one = addresses.find(|one| one.get("type") == Some(&"InternalIP".into()))?;
        one.get("address")?.as_str().map(str::to_owned)
    });
    let host = host.unwrap_or_else(|| nodes::address(node));
    let shares_host = pod.at(&["spec", "hostNetwork"]) == Some(&Value::Bool(true));
    let address = match shares_host {
        true => host.clone(),
        false => turns.address(objects),
    };
    let since = json!({"running": {"startedAt": whole_seconds(now)}});
    let is_ready = passes_gates(pod);
    let mut conditions: Vec<Condition> = [
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "PodScheduled",
    ]
    .map(|kind| Condition::new(kind, true, ""))
    .into();
    conditions.push(ready(is_ready));
    let status = json!({
        "phase": "Running", "conditions": with_conditions(pod, &conditions, now),
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": address, "podIPs": [{"ip": address}],
        "startTime": whole_seconds(now),
        "initContainerStatuses": init_containers(pod, now),
        "containerStatuses": containers(pod, "containers", &since),
    });
    Step::status(Kind::Pod, pod, status)
}

/// Reports the end of a pod of a Job, and the readiness of one with readiness gates. All else about
/// a running pod is left to the test.
fn goes_on(pod: &Object, now: Timestamp) -> Option<Step> {
    let of_job = controller_of(pod).is_some_and(|owner| owner.get("kind") == Some(&"Job".into()));
    if of_job && runs_here(pod) {
        let conditions = ["Ready", "ContainersReady"];
        let conditions = conditions.map(|kind| Condition::new(kind, false, "PodCompleted"));
        let status = json!({
            "phase": "Succeeded", "conditions": with_conditions(pod, &conditions, now),
            "containerStatuses": containers(pod, "containers", &terminated(now, 0, "Completed")),
        });
        return Step::status(Kind::Pod, pod, status);
    }
    let has_gates = !pod.items(&["spec", "readinessGates"]).is_empty();
    let should_be = holds(pod, "ContainersReady") && passes_gates(pod);
    if has_gates && runs_here(pod) && should_be != holds(pod, "Ready") {
        let conditions = with_conditions(pod, &[ready(should_be)], now);
        return Step::status(Kind::Pod, pod, json!({"conditions": conditions}));
    }
    None
}

/// Whether the simulation has started the containers of a pod.
fn runs_here(pod: &Object) -> bool {
    let containers = pod.items(&["status", "containerStatuses"]);
    let id = containers.first().and_then(|one| one.get("containerID"));
    id.and_then(Value::as_str)
        .is_some_and(|id| id.starts_with(RUNTIME))
}

fn passes_gates(pod: &Object) -> bool {
    pod.items(&["spec", "readinessGates"]).iter().all(|gate| {
        let kind = gate.get("conditionType").and_then(Value::as_str);
        let known = condition(pod, kind.unwrap_or_default());
        known.and_then(|known| known.get("status")) == Some(&"True".into())
    })
}

fn ready(is_ready: bool) -> Condition {
    match is_ready {
        true => Condition::new("Ready", true, ""),
        false => Condition::new("Ready", false, "ReadinessGatesNotReady"),
    }
}

fn terminated(now: Timestamp, code: u8, reason: &str) -> Value {
    let now = whole_seconds(now);
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}})
}

/// The statuses of containers in this state.
fn containers(pod: &Object, list: &str, state: &Value) -> Vec<Value> {
    let containers = pod.items(&["spec", list]).iter();
    containers.map(|one| container(pod, one, state)).collect()
}

/// Init containers have completed. Those that are restarted always run on.
fn init_containers(pod: &Object, now: Timestamp) -> Vec<Value> {
    let containers = pod.items(&["spec", "initContainers"]).iter();
    let state = |one: &Value| match one.get("restartPolicy").and_then(Value::as_str) {
        Some("Always") => json!({"running": {"startedAt": whole_seconds(now)}}),
        _ => terminated(now, 0, "Completed"),
    };
    containers
        .map(|one| container(pod, one, &state(one)))
        .collect()
}

fn container(pod: &Object, container: &Value, state: &Value) -> Value {
    let text = |name: &str| {
        container
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let runs = state.get("running").is_some();
    let succeeded = state.pointer("/terminated/exitCode") == Some(&json!(0));
    // An init container that has completed counts as ready.
    let is_init = pod.items(&["spec", "initContainers"]).contains(container);
    json!({
        "name": text("name"), "image": text("image"), "imageID": text("image"),
        "containerID": format!("{RUNTIME}{}/{}", pod.uid(), text("name")),
        "ready": runs || (is_init && succeeded), "started": runs, "restartCount": 0,
        "lastState": {}, "state": state,
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::object;
    use super::super::{Id, Objects};
    use super::*;

    fn pod(more: Value) -> Object {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": SCHEDULER},
        });
        merge(&mut pod, more);
        object(&pod)
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (name, value) in from {
                    merge(into.entry(name).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    fn planned(objects: &Objects, more: Value) -> Vec<Step> {
        plan(
            objects,
            &pod(more),
            &mut Turns::default(),
            Timestamp::UNIX_EPOCH,
        )
        .steps
    }

    fn with_node() -> Objects {
        let mut objects = Objects::default();
        let node = nodes::new("node-1", Timestamp::UNIX_EPOCH);
        objects.put(Id::of(Kind::Node, &node), node);
        objects
    }

    fn status(steps: &[Step]) -> &Value {
        match steps {
            [
                Step::Patch {
                    patch,
                    part: Some("status"),
                    ..
                },
            ] => &patch["status"],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_is_bound_to_a_node_which_is_made_if_there_is_none() {
        let made = planned(&Objects::default(), json!({}));
        assert!(matches!(&*made, [Step::Create(Kind::Node, _)]), "{made:?}");
        let bound = planned(&with_node(), json!({}));
        assert!(
            matches!(&*bound, [Step::Bind { node, .. }] if node == "node-1"),
            "{bound:?}"
        );
        let gated = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        assert_eq!(planned(&with_node(), gated), []);
        assert_eq!(
            planned(&with_node(), json!({"spec": {"schedulerName": "mine"}})),
            []
        );
        let elsewhere = planned(&with_node(), json!({"spec": {"nodeSelector": {"a": "b"}}}));
        assert_eq!(
            status(&elsewhere)["conditions"][0]["reason"],
            "Unschedulable"
        );
    }

    #[test]
    fn a_bound_pod_runs_and_one_of_a_job_succeeds() {
        let bound = json!({"spec": {"nodeName": "node-1", "initContainers": [{"name": "i"}]}});
        let steps = planned(&with_node(), bound);
        let running = status(&steps).clone();
        assert_eq!(running["phase"], "Running");
        assert_eq!(running["podIP"], "10.244.0.1");
        assert_eq!(running["hostIP"], "172.30.0.1");
        assert_eq!(running["containerStatuses"][0]["ready"], true);
        let init = &running["initContainerStatuses"][0];
        assert_eq!(init["state"]["terminated"]["exitCode"], 0);
        let mut more = json!({"spec": {"nodeName": "node-1"}, "status": running});
        assert_eq!(planned(&with_node(), more.clone()), []);
        more["metadata"] = json!({"ownerReferences": [{"kind": "Job", "controller": true}]});
        let steps = planned(&with_node(), more);
        assert_eq!(status(&steps)["phase"], "Succeeded");
    }

    #[test]
    fn readiness_gates_decide_about_readiness() {
        let gates = json!({"nodeName": "node-1", "readinessGates": [{"conditionType": "mine"}]});
        let steps = planned(&with_node(), json!({"spec": gates}));
        let mut running = status(&steps).clone();
        let is_ready = |conditions: &Value| {
            let mut all = conditions.as_array().unwrap().iter();
            all.find(|one| one["type"] == "Ready").unwrap()["status"] == "True"
        };
        assert!(!is_ready(&running["conditions"]));
        let conditions = running["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "mine", "status": "True"}));
        let steps = planned(&with_node(), json!({"spec": gates, "status": running}));
        assert!(is_ready(&status(&steps)["conditions"]));
    }

    #[test]
    fn a_deleted_pod_is_removed_once() {
        let deleted = |grace: i64, finalizers: Value| {
            json!({"metadata": {"deletionTimestamp": "t", "finalizers": finalizers,
                "deletionGracePeriodSeconds": grace}, "spec": {"nodeName": "node-1"}})
        };
        let steps = planned(&with_node(), deleted(30, json!([])));
        assert!(
            matches!(&*steps, [Step::Delete { grace: Some(0), .. }]),
            "{steps:?}"
        );
        assert_eq!(planned(&with_node(), deleted(0, json!([]))), []);
        let steps = planned(&with_node(), deleted(30, json!(["f"])));
        assert_eq!(status(&steps)["phase"], "Failed");
    }
}
