//! Pure. Small controllers of workloads. They follow Kubernetes' own in names, owners and status,
//! and do without its arithmetic of surges.

mod daemon_set;
mod deployment;
mod job;
mod replica_set;
mod stateful_set;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{Kind, Objects, controller_of};
use super::plan::{Plan, Step, condition, holds, number, owner, selects, time};
use crate::api::object::Object;

/// The condition of a ReplicaSet whose pods are refused, and of its Deployment.
const FAILURE: &str = "ReplicaFailure";
/// The label with the hash of a template, for StatefulSets and DaemonSets.
const REVISION_LABEL: &str = "controller-revision-hash";

/// The writes for a workload. `refusal` says why its pods can't be created.
pub(super) fn plan(
    objects: &Objects,
    kind: Kind,
    object: &Object,
    refusal: Option<&str>,
    now: Timestamp,
) -> Plan {
    if object.is_being_deleted() {
        return Plan::default();
    }
    match kind {
        Kind::Deployment => deployment::plan(objects, object, now),
        Kind::ReplicaSet => replica_set::plan(objects, object, refusal, now),
        Kind::StatefulSet => stateful_set::plan(objects, object, now),
        Kind::DaemonSet => daemon_set::plan(objects, object, now),
        Kind::Job => job::plan(objects, object, now),
        Kind::Node | Kind::Lease | Kind::Pod | Kind::Claim => Plan::default(),
    }
}

/// The objects that a workload controls, and the writes that adopt and release others.
struct Dependents {
    owned: Vec<Arc<Object>>,
    steps: Vec<Step>,
}

/// Finds the dependents of a workload by its selector.
fn dependents(objects: &Objects, kind: Kind, of: &Object, dependent: Kind) -> Dependents {
    let selector = of.at(&["spec", "selector"]);
    let (kept, lost): (Vec<_>, Vec<_>) = objects
        .controlled_by(dependent, of.uid())
        .cloned()
        .partition(|one| selects(selector, one));
    let mut steps = Vec::new();
    for one in lost.iter().filter(|one| !one.is_being_deleted()) {
        let owners = one.items(&["metadata", "ownerReferences"]).iter();
        let others = owners.filter(|owner| owner.get("uid") != Some(&of.uid().into()));
        let others: Vec<&Value> = others.collect();
        let patch = json!({"metadata": {"ownerReferences": others}});
        steps.push(Step::patch(dependent, one, patch));
    }
    for (_, one) in objects.within(dependent, of.namespace()) {
        let is_free = controller_of(one).is_none() && !one.is_being_deleted();
        if is_free && selects(selector, one) {
            let mut owners = one.items(&["metadata", "ownerReferences"]).to_vec();
            owners.extend(owner(kind, of).as_array().cloned().unwrap_or_default());
            let patch = json!({"metadata": {"ownerReferences": owners}});
            steps.push(Step::patch(dependent, one, patch));
        }
    }
    Dependents { owned: kept, steps }
}

/// Whether a pod has been Ready for `minReadySeconds` of its workload. If it will be, the plan
/// looks again then.
fn is_available(workload: &Object, pod: &Object, plan: &mut Plan, now: Timestamp) -> bool {
    let seconds = number(workload, &["spec", "minReadySeconds"]);
    if !is_ready(pod) || seconds == 0 {
        return is_ready(pod);
    }
    let since = condition(pod, "Ready").and_then(|ready| ready.get("lastTransitionTime"));
    let Some(since) = time(since) else {
        return false;
    };
    let from = since + std::time::Duration::from_secs(seconds.unsigned_abs());
    if now >= from {
        return true;
    }
    plan.again_at(from, now);
    false
}

fn is_ready(pod: &Object) -> bool {
    holds(pod, "Ready") && !pod.is_being_deleted()
}

/// `spec.replicas`, which the server has set.
fn replicas(workload: &Object) -> i64 {
    let replicas = workload.at(&["spec", "replicas"]).and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

fn put_into(status: &mut Value, name: &str, value: Value) {
    if let Some(status) = status.as_object_mut() {
        status.insert(name.to_owned(), value);
    }
}

/// A count as the numbers of a status have it.
fn count<'o>(objects: impl IntoIterator<Item = &'o Arc<Object>>) -> i64 {
    i64::try_from(objects.into_iter().count()).unwrap_or(i64::MAX)
}

fn label<'o>(object: &'o Object, name: &str) -> &'o str {
    object.text(&["metadata", "labels", name])
}
