//! Pure. DaemonSets: a pod for each node that it fits. Old pods are replaced one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Kind, REVISION_LABEL, count, dependents, is_available, is_ready, label};
use crate::api::object::{Object, push, put};
use crate::controllers::simulation::objects::Objects;
use crate::controllers::simulation::placement::fits;
use crate::controllers::simulation::plan::{Plan, Step, is_finished, pod_of, template_hash};

/// The affinity that binds a pod to its node.
const TERMS: [&str; 5] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];
/// Taints that do not keep daemons away.
const TOLERATED: [(&str, &str); 6] = [
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
];

/// The writes for a DaemonSet.
pub(super) fn plan(objects: &Objects, set: &Object, now: Timestamp) -> Plan {
    let found = dependents(objects, Kind::DaemonSet, set, Kind::Pod);
    if !found.steps.is_empty() {
        // The pods are known only afterwards.
        return Plan::of(found.steps);
    }
    let mut plan = Plan::default();
    let hash = template_hash(set.at(&["spec", "template"]), 0);
    let model = model(set, &hash);
    let nodes = objects.of_kind(Kind::Node).map(|(_, node)| node);
    let nodes = nodes.filter(|node| !node.is_being_deleted());
    let nodes: Vec<&Arc<Object>> = nodes.filter(|node| fits(&model, node)).collect();
    let mut by_node: BTreeMap<String, Vec<Arc<Object>>> = BTreeMap::new();
    for pod in found.owned {
        by_node.entry(node_of(&pod)).or_default().push(pod);
    }
    let mut scheduled = Vec::new();
    for node in &nodes {
        let mut pods = by_node.remove(node.name()).unwrap_or_default().into_iter();
        match pods.next() {
            None => plan
                .steps
                .push(Step::Create(Kind::Pod, for_node(&model, node.name()))),
            Some(pod) if is_finished(&pod) && !pod.is_being_deleted() => {
                plan.steps.push(Step::delete(Kind::Pod, &pod));
            }
            Some(pod) => scheduled.push(pod),
        }
        // One pod is enough.
        plan.steps.extend(deleted(pods));
    }
    let misplaced: Vec<Arc<Object>> = by_node.into_values().flatten().collect();
    let misplaced_count = count(&misplaced);
    plan.steps.extend(deleted(misplaced.into_iter()));
    let is_old = |pod: &&Arc<Object>| label(pod, REVISION_LABEL) != hash;
    let is_complete = scheduled.len() == nodes.len() && scheduled.iter().all(|pod| is_ready(pod));
    let is_rolling = set.text(&["spec", "updateStrategy", "type"]) != "OnDelete";
    if let (true, true, Some(pod)) = (is_complete, is_rolling, scheduled.iter().find(is_old)) {
        plan.steps.push(Step::delete(Kind::Pod, pod));
    }
    let available = scheduled
        .iter()
        .filter(|pod| is_available(set, pod, &mut plan, now));
    let available = count(available);
    let wanted = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
    let status = json!({
        "observedGeneration": set.at(&["metadata", "generation"]),
        "desiredNumberScheduled": wanted, "currentNumberScheduled": count(&scheduled),
        "numberMisscheduled": misplaced_count,
        "numberReady": count(scheduled.iter().filter(|pod| is_ready(pod))),
        "numberAvailable": available, "numberUnavailable": (wanted - available).max(0),
        "updatedNumberScheduled": count(scheduled.iter().filter(|pod| !is_old(pod))),
    });
    plan.steps
        .extend(Step::status(Kind::DaemonSet, set, status));
    plan
}

fn deleted(pods: impl Iterator<Item = Arc<Object>>) -> Vec<Step> {
    let alive = pods.filter(|pod| !pod.is_being_deleted());
    alive.map(|pod| Step::delete(Kind::Pod, &pod)).collect()
}

/// The node of a pod: its own, or the one that it is made for.
fn node_of(pod: &Object) -> String {
    let node = pod.text(&["spec", "nodeName"]);
    if !node.is_empty() {
        return node.to_owned();
    }
    let mut terms = pod.items(&TERMS).iter();
    let node = terms.find_map(|term| term.pointer("/matchFields/0/values/0")?.as_str());
    node.unwrap_or_default().to_owned()
}

/// A pod without a node.
fn model(set: &Object, hash: &str) -> Object {
    let mut pod = pod_of(Kind::DaemonSet, set);
    pod.set_meta("generateName", &format!("{}-", set.name()));
    put(
        &mut pod,
        &["metadata", "labels", REVISION_LABEL],
        hash.into(),
    );
    for (name, effect) in TOLERATED {
        let key = format!("node.kubernetes.io/{name}");
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        push(&mut pod, &["spec", "tolerations"], toleration);
    }
    pod
}

fn for_node(model: &Object, node: &str) -> Object {
    let mut pod = model.clone();
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let mut terms: Vec<Value> = pod.items(&TERMS).to_vec();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        term.insert("matchFields".to_owned(), fields.clone());
    }
    put(&mut pod, &TERMS, terms.into());
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::simulation::nodes;
    use crate::controllers::simulation::objects::Id;
    use crate::controllers::simulation::plan::tests::object;

    fn set(spec: &Value) -> Object {
        object(&json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u"},
            "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}},
        }))
    }

    #[test]
    fn each_node_that_fits_has_a_pod() {
        let mut objects = Objects::default();
        for number in [1, 2] {
            let node = nodes::new(&nodes::name(number), Timestamp::UNIX_EPOCH);
            objects.put(Id::of(Kind::Node, &node), node);
        }
        let created = |objects: &Objects, set: &Object| {
            let steps = plan(objects, set, Timestamp::UNIX_EPOCH).steps.into_iter();
            let made = steps.filter_map(|step| match step {
                Step::Create(_, pod) => Some(pod),
                _ => None,
            });
            made.collect::<Vec<Object>>()
        };
        let made = created(&objects, &set(&json!({})));
        let places: Vec<String> = made.iter().map(node_of).collect();
        assert_eq!(places, ["node-1", "node-2"]);
        let one = set(&json!({"nodeSelector": {"kubernetes.io/hostname": "node-2"}}));
        assert_eq!(created(&objects, &one).len(), 1);
        let mut pod = made[0].clone();
        pod.set_meta("name", "s-1");
        objects.put(Id::of(Kind::Pod, &pod), pod);
        assert_eq!(created(&objects, &set(&json!({}))).len(), 1);
    }
}
