//! Pure. Deployments: a ReplicaSet for each template. The new one is scaled up at once, and the
//! others down when it is available; with the strategy Recreate the others go first.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FAILURE, Kind, dependents, put_into, replicas};
use crate::api::object::{Object, put};
use crate::controllers::simulation::objects::{Id, Objects};
use crate::controllers::simulation::plan::{
    Condition, Plan, Step, condition, number, owner, template_hash, with_conditions,
    without_condition,
};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotations of a Deployment that its ReplicaSets do not get.
const OWN_ANNOTATIONS: [&str; 2] = [REVISION, "kubectl.kubernetes.io/last-applied-configuration"];

/// The writes for a Deployment.
pub(super) fn plan(objects: &Objects, deployment: &Object, now: Timestamp) -> Plan {
    let found = dependents(objects, Kind::Deployment, deployment, Kind::ReplicaSet);
    if !found.steps.is_empty() {
        // The ReplicaSets are known only afterwards.
        return Plan::of(found.steps);
    }
    let mut plan = Plan::default();
    let template = template_of(deployment);
    let all = found
        .owned
        .into_iter()
        .filter(|set| !set.is_being_deleted());
    let (mut new, old): (Vec<_>, Vec<_>) = all.partition(|set| template_of(set) == template);
    // Of several the oldest is used.
    new.sort_by_key(|set| {
        (
            set.meta("creationTimestamp").to_owned(),
            set.name().to_owned(),
        )
    });
    let new = new.first();
    let is_paused = deployment.at(&["spec", "paused"]) == Some(&Value::Bool(true));
    let newest = old
        .iter()
        .map(|set| revision(set))
        .max()
        .unwrap_or_default();
    match new {
        Some(set) if !is_paused && revision(set) <= newest => {
            let patch = json!({"metadata": {"annotations": annotations(deployment, newest + 1)}});
            plan.steps.push(Step::patch(Kind::ReplicaSet, set, patch));
        }
        Some(set) if !is_paused && revision(set) != revision(deployment) => {
            let annotation = json!({REVISION: revision(set).to_string()});
            let patch = json!({"metadata": {"annotations": annotation}});
            plan.steps
                .push(Step::patch(Kind::Deployment, deployment, patch));
        }
        _ => {}
    }
    let scaling = scale(deployment, new, &old, is_paused);
    let is_waiting = recreates(deployment) && old.iter().any(runs);
    plan.steps.extend(scaling);
    let mut collisions = number(deployment, &["status", "collisionCount"]);
    if new.is_none() && !is_paused && !is_waiting {
        let hash = template_hash(deployment.at(&["spec", "template"]), collisions);
        let set = replica_set(deployment, &hash, newest + 1);
        match objects.get(&Id::of(Kind::ReplicaSet, &set)) {
            // Another ReplicaSet has the name.
            Some(_) => collisions += 1,
            None => plan.steps.push(Step::Create(Kind::ReplicaSet, set)),
        }
    }
    plan.steps.extend(forgotten(deployment, old.clone()));
    let mut status = status(deployment, new, &old, now);
    if collisions > 0 {
        put_into(&mut status, "collisionCount", collisions.into());
    }
    plan.steps
        .extend(Step::status(Kind::Deployment, deployment, status));
    plan
}

/// A template without the label that a Deployment adds.
fn template_of(object: &Object) -> Value {
    let template = object.at(&["spec", "template"]);
    let mut template = template.cloned().unwrap_or_default();
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    template
}

fn revision(object: &Object) -> i64 {
    let text = object.text(&["metadata", "annotations", REVISION]);
    text.parse().unwrap_or_default()
}

fn recreates(deployment: &Object) -> bool {
    deployment.text(&["spec", "strategy", "type"]) == "Recreate"
}

/// The annotations of a ReplicaSet.
fn annotations(deployment: &Object, revision: i64) -> Value {
    let all = deployment
        .at(&["metadata", "annotations"])
        .and_then(Value::as_object);
    let mut all = all.cloned().unwrap_or_default();
    for name in OWN_ANNOTATIONS {
        all.remove(name);
    }
    all.insert(REVISION.to_owned(), revision.to_string().into());
    let desired = replicas(deployment).to_string();
    all.insert(
        "deployment.kubernetes.io/desired-replicas".to_owned(),
        desired.into(),
    );
    all.into()
}

/// The ReplicaSet of the current template.
fn replica_set(deployment: &Object, hash: &str, revision: i64) -> Object {
    let mut set = Object::default();
    set.set_type("ReplicaSet", "apps/v1");
    set.set_meta("name", &format!("{}-{hash}", deployment.name()));
    set.set_meta("namespace", deployment.namespace());
    let part = |path: &[&str]| deployment.at(path).cloned().unwrap_or_default();
    let template = part(&["spec", "template"]);
    let labels = template.pointer("/metadata/labels").cloned();
    put(
        &mut set,
        &["metadata", "labels"],
        labels.unwrap_or_default(),
    );
    put(
        &mut set,
        &["metadata", "annotations"],
        annotations(deployment, revision),
    );
    put(
        &mut set,
        &["metadata", "ownerReferences"],
        owner(Kind::Deployment, deployment),
    );
    let spec = json!({
        "replicas": replicas(deployment), "minReadySeconds": part(&["spec", "minReadySeconds"]),
        "selector": part(&["spec", "selector"]), "template": template,
    });
    put(&mut set, &["spec"], spec);
    let places: [&[&str]; 3] = [
        &["metadata", "labels", HASH],
        &["spec", "selector", "matchLabels", HASH],
        &["spec", "template", "metadata", "labels", HASH],
    ];
    for place in places {
        put(&mut set, place, hash.into());
    }
    set
}

/// Whether a ReplicaSet has pods, or wants some.
fn runs(set: &Arc<Object>) -> bool {
    replicas(set) > 0 || number(set, &["status", "replicas"]) > 0
}

/// The writes that scale ReplicaSets.
fn scale(
    deployment: &Object,
    new: Option<&Arc<Object>>,
    old: &[Arc<Object>],
    is_paused: bool,
) -> Vec<Step> {
    let wanted = replicas(deployment);
    let to = |set: &Arc<Object>, count: i64| {
        let differs = replicas(set) != count;
        differs.then(|| Step::scale(Kind::ReplicaSet, set, count))
    };
    if is_paused {
        // A rollout stands still. If one ReplicaSet has all pods, it is scaled.
        let mut active = old.iter().chain(new).filter(|set| replicas(set) > 0);
        let only = active.next().filter(|_| active.next().is_none());
        return only
            .or(new)
            .and_then(|set| to(set, wanted))
            .into_iter()
            .collect();
    }
    let down = old.iter().filter_map(|set| to(set, 0));
    if recreates(deployment) {
        if old.iter().any(runs) {
            return down.collect();
        }
        return new.and_then(|set| to(set, wanted)).into_iter().collect();
    }
    let up = new.and_then(|set| to(set, wanted));
    let available = new.map_or(0, |set| number(set, &["status", "availableReplicas"]));
    match new.is_some() && available >= wanted {
        true => up.into_iter().chain(down).collect(),
        false => up.into_iter().collect(),
    }
}

/// The writes that delete old ReplicaSets beyond the limit of the history.
fn forgotten(deployment: &Object, mut old: Vec<Arc<Object>>) -> Vec<Step> {
    let limit = deployment
        .at(&["spec", "revisionHistoryLimit"])
        .and_then(Value::as_u64);
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
    old.sort_by_key(|set| revision(set));
    let surplus = old.len().saturating_sub(limit);
    let idle = old.iter().take(surplus).filter(|set| !runs(set));
    idle.map(|set| Step::delete(Kind::ReplicaSet, set))
        .collect()
}

fn status(
    deployment: &Object,
    new: Option<&Arc<Object>>,
    old: &[Arc<Object>],
    now: Timestamp,
) -> Value {
    let wanted = replicas(deployment);
    let of = |set: &Arc<Object>, name: &str| number(set, &["status", name]);
    let sum = |name: &str| -> i64 { old.iter().chain(new).map(|set| of(set, name)).sum() };
    let (total, available) = (sum("replicas"), sum("availableReplicas"));
    let updated = new.map_or(0, |set| of(set, "replicas"));
    let is_complete = updated == wanted && total == wanted && available >= wanted;
    let least = wanted - unavailable_max(deployment, wanted);
    let is_available = available >= least;
    let progress = match (is_complete, new) {
        (true, _) => "NewReplicaSetAvailable",
        (false, None) => "NewReplicaSetCreated",
        (false, Some(_)) => "ReplicaSetUpdated",
    };
    let message = new.map(|set| match is_complete {
        true => format!("ReplicaSet \"{}\" has successfully progressed.", set.name()),
        false => format!("ReplicaSet \"{}\" is progressing.", set.name()),
    });
    let mut set = vec![
        match is_available {
            true => Condition::new("Available", true, "MinimumReplicasAvailable")
                .saying("Deployment has minimum availability."),
            false => Condition::new("Available", false, "MinimumReplicasUnavailable")
                .saying("Deployment does not have minimum availability."),
        },
        Condition::new("Progressing", true, progress).saying(message.unwrap_or_default()),
    ];
    let mut failures = new.into_iter().chain(old);
    let failure = failures.find_map(|set| {
        let message = condition(set, FAILURE)?.get("message")?.as_str()?;
        Some(Condition::new(FAILURE, true, "FailedCreate").saying(message))
    });
    let fails = failure.is_some();
    set.extend(failure);
    let conditions = with_conditions(deployment, &set, now);
    let conditions = match fails {
        true => conditions,
        false => without_condition(conditions, FAILURE),
    };
    json!({
        "observedGeneration": deployment.at(&["metadata", "generation"]),
        "replicas": total, "updatedReplicas": updated, "readyReplicas": sum("readyReplicas"),
        "availableReplicas": available, "unavailableReplicas": (wanted.max(total) - available).max(0),
        "conditions": with_updates(deployment, conditions),
    })
}

/// Conditions of Deployments also say when they were updated.
fn with_updates(deployment: &Object, mut conditions: Value) -> Value {
    let known = deployment.items(&["status", "conditions"]);
    for condition in conditions.as_array_mut().into_iter().flatten() {
        // linear: a Deployment has three conditions at most.
        let is_known = known.contains(condition);
        let time = condition.get("lastTransitionTime").cloned();
        if let (false, Some(members), Some(time)) = (is_known, condition.as_object_mut(), time) {
            members.insert("lastUpdateTime".to_owned(), time);
        }
    }
    conditions
}

/// How many pods may be unavailable.
fn unavailable_max(deployment: &Object, wanted: i64) -> i64 {
    let most = deployment.at(&["spec", "strategy", "rollingUpdate", "maxUnavailable"]);
    match most {
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default(),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            wanted.saturating_mul(percent) / 100
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::label;
    use super::*;
    use crate::controllers::simulation::plan::tests::object;

    fn deployment(image: &str, more: &Value) -> Object {
        let mut deployment = object(&json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "generation": 1},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": image}]}}},
        }));
        for (name, value) in more.as_object().unwrap() {
            put(&mut deployment, &["spec", name.as_str()], value.clone());
        }
        deployment
    }

    fn sets(objects: &mut Objects, all: &[(&Object, i64, i64)]) {
        for (number, (deployment, replicas, available)) in all.iter().enumerate() {
            let hash = template_hash(deployment.at(&["spec", "template"]), 0);
            let mut set = replica_set(deployment, &hash, number as i64 + 1);
            put(&mut set, &["spec", "replicas"], (*replicas).into());
            let status = json!({"replicas": replicas, "availableReplicas": available});
            put(&mut set, &["status"], status);
            objects.put(Id::of(Kind::ReplicaSet, &set), set);
        }
    }

    fn scales(plan: &Plan) -> Vec<i64> {
        let patches = plan.steps.iter().filter_map(|step| match step {
            Step::Patch { patch, .. } => patch.pointer("/spec/replicas")?.as_i64(),
            _ => None,
        });
        patches.collect()
    }

    #[test]
    fn a_new_template_has_a_new_replica_set() {
        let first = plan(
            &Objects::default(),
            &deployment("1", &json!({})),
            Timestamp::UNIX_EPOCH,
        );
        let Some(Step::Create(Kind::ReplicaSet, set)) = first.steps.first() else {
            panic!("{first:?}");
        };
        assert_eq!(revision(set), 1);
        assert_eq!(
            set.text(&["spec", "selector", "matchLabels", HASH]),
            label(set, HASH)
        );
    }

    #[test]
    fn old_replica_sets_go_when_the_new_one_is_available() {
        let (one, two) = (deployment("1", &json!({})), deployment("2", &json!({})));
        for (available, scaled) in [(2, vec![]), (3, vec![0])] {
            let mut objects = Objects::default();
            sets(&mut objects, &[(&one, 3, 3), (&two, 3, available)]);
            let plan = plan(&objects, &two, Timestamp::UNIX_EPOCH);
            assert_eq!(scales(&plan), scaled);
        }
    }

    #[test]
    fn recreate_ends_old_pods_first() {
        let strategy = json!({"strategy": {"type": "Recreate"}});
        let (one, two) = (deployment("1", &strategy), deployment("2", &strategy));
        let mut objects = Objects::default();
        sets(&mut objects, &[(&one, 3, 3)]);
        let down = plan(&objects, &two, Timestamp::UNIX_EPOCH);
        assert_eq!(scales(&down), [0]);
        let is_create = |step: &Step| matches!(step, Step::Create(..));
        assert!(!down.steps.iter().any(is_create), "{down:?}");
    }

    #[test]
    fn an_earlier_template_becomes_the_newest_revision() {
        let (one, two) = (deployment("1", &json!({})), deployment("2", &json!({})));
        let mut objects = Objects::default();
        sets(&mut objects, &[(&one, 0, 0), (&two, 3, 3)]);
        let plan = plan(&objects, &one, Timestamp::UNIX_EPOCH);
        let Some(Step::Patch { patch, .. }) = plan.steps.first() else {
            panic!("{plan:?}");
        };
        assert_eq!(patch["metadata"]["annotations"][REVISION], "3");
        assert_eq!(scales(&plan), [3]);
    }
}
