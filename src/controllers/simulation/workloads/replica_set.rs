//! Pure. ReplicaSets: as many pods as wanted.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::{Kind, count, dependents, is_available, is_ready, replicas};
use crate::api::object::Object;
use crate::controllers::simulation::objects::Objects;
use crate::controllers::simulation::plan::{Plan, Step, is_finished, pod_of, selects};

/// Pods that are created or deleted before the next look.
const AT_A_TIME: usize = 100;

/// The writes for a ReplicaSet.
pub(super) fn plan(objects: &Objects, set: &Object, now: Timestamp) -> Plan {
    let found = dependents(objects, Kind::ReplicaSet, set, Kind::Pod);
    let mut plan = Plan::of(found.steps);
    let active = found.owned.into_iter();
    let mut active: Vec<Arc<Object>> = active
        .filter(|pod| !pod.is_being_deleted() && !is_finished(pod))
        .collect();
    let available = active
        .iter()
        .filter(|pod| is_available(set, pod, &mut plan, now));
    let available = count(available);
    let template = json!({"matchLabels": set.at(&["spec", "template", "metadata", "labels"])});
    let labelled = active.iter().filter(|pod| selects(Some(&template), pod));
    let status = json!({
        "observedGeneration": set.at(&["metadata", "generation"]),
        "replicas": count(&active), "fullyLabeledReplicas": count(labelled),
        "readyReplicas": count(active.iter().filter(|pod| is_ready(pod))),
        "availableReplicas": available,
    });
    let wanted = usize::try_from(replicas(set)).unwrap_or_default();
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(AT_A_TIME);
        let mut pod = pod_of(Kind::ReplicaSet, set);
        pod.set_meta("generateName", &format!("{}-", set.name()));
        let made = (0..missing).map(|_| Step::Create(Kind::Pod, pod.clone()));
        plan.steps.extend(made);
    }
    // Those that do the least go first: without a node, not ready, young.
    active.sort_by_key(|pod| {
        let has_node = !pod.text(&["spec", "nodeName"]).is_empty();
        let since = pod.meta("creationTimestamp").to_owned();
        (
            has_node,
            is_ready(pod),
            Reverse(since),
            pod.name().to_owned(),
        )
    });
    let surplus = active.len().saturating_sub(wanted).min(AT_A_TIME);
    let deleted = active.iter().take(surplus);
    plan.steps
        .extend(deleted.map(|pod| Step::delete(Kind::Pod, pod)));
    plan.steps
        .extend(Step::status(Kind::ReplicaSet, set, status));
    plan
}
