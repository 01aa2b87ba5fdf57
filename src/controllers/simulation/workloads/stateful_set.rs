//! Pure. StatefulSets: pods with ordinals and claims, one after another unless they are parallel.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Kind, REVISION_LABEL, count, dependents, is_available, is_ready, label, replicas};
use crate::api::object::{Object, put};
use crate::controllers::simulation::objects::{Id, Objects};
use crate::controllers::simulation::plan::{
    Plan, Step, is_finished, number, owner, pod_of, template_hash,
};

/// The writes for a StatefulSet.
pub(super) fn plan(objects: &Objects, set: &Object, now: Timestamp) -> Plan {
    let found = dependents(objects, Kind::StatefulSet, set, Kind::Pod);
    if !found.steps.is_empty() {
        // The pods are known only afterwards.
        return Plan::of(found.steps);
    }
    let mut plan = Plan::default();
    let hash = template_hash(set.at(&["spec", "template"]), 0);
    let revision = format!("{}-{hash}", set.name());
    let pods = found.owned.into_iter();
    let pods = pods.filter_map(|pod| Some((ordinal(set, pod.name())?, pod)));
    let pods: BTreeMap<i64, Arc<Object>> = pods.collect();
    let available = pods
        .values()
        .filter(|pod| is_available(set, pod, &mut plan, now));
    let available = count(available);
    plan.steps.extend(Step::status(
        Kind::StatefulSet,
        set,
        status(set, &pods, &revision, available),
    ));
    let steps = next(objects, set, &pods, &revision);
    plan.steps.extend(steps);
    plan
}

/// The ordinal of a pod by its name.
fn ordinal(set: &Object, name: &str) -> Option<i64> {
    let rest = name.strip_prefix(set.name())?.strip_prefix('-')?;
    rest.parse().ok()
}

/// The writes that bring the pods closer to what is wanted.
fn next(
    objects: &Objects,
    set: &Object,
    pods: &BTreeMap<i64, Arc<Object>>,
    revision: &str,
) -> Vec<Step> {
    let first = number(set, &["spec", "ordinals", "start"]);
    let wanted = first..first.saturating_add(replicas(set));
    let is_parallel = set.text(&["spec", "podManagementPolicy"]) == "Parallel";
    let mut steps = Vec::new();
    for ordinal in wanted.clone() {
        match pods.get(&ordinal) {
            None => steps.extend(made(objects, set, ordinal, revision)),
            Some(pod) if pod.is_being_deleted() => {}
            // A pod that has ended is made again.
            Some(pod) if is_finished(pod) => steps.push(Step::delete(Kind::Pod, pod)),
            Some(pod) if is_ready(pod) => continue,
            Some(_) => {}
        }
        if !is_parallel {
            // The next one waits until this one is ready.
            return steps;
        }
    }
    let surplus = pods
        .iter()
        .rev()
        .filter(|(ordinal, _)| !wanted.contains(ordinal));
    for (_, pod) in surplus {
        if !pod.is_being_deleted() {
            steps.push(Step::delete(Kind::Pod, pod));
        }
        if !is_parallel {
            return steps;
        }
    }
    if steps.is_empty() {
        steps.extend(replaced(set, pods, revision));
    }
    steps
}

/// Deletes the last pod that has an old template. It begins when all pods are ready.
fn replaced(set: &Object, pods: &BTreeMap<i64, Arc<Object>>, revision: &str) -> Option<Step> {
    let waits = pods.values().any(|pod| !is_ready(pod));
    if waits || set.text(&["spec", "updateStrategy", "type"]) == "OnDelete" {
        return None;
    }
    let partition = number(
        set,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
    );
    let mut old = pods.iter().rev();
    // linear: the pods of one set.
    let (_, pod) = old
        .find(|(ordinal, pod)| **ordinal >= partition && label(pod, REVISION_LABEL) != revision)?;
    Some(Step::delete(Kind::Pod, pod))
}

/// Creates a pod, after its claims.
fn made(objects: &Objects, set: &Object, ordinal: i64, revision: &str) -> Vec<Step> {
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = pod_of(Kind::StatefulSet, set);
    pod.set_meta("name", &name);
    for (label, text) in [
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        (REVISION_LABEL, revision),
    ] {
        put(&mut pod, &["metadata", "labels", label], text.into());
    }
    put(&mut pod, &["spec", "hostname"], name.as_str().into());
    let service = set.text(&["spec", "serviceName"]);
    if !service.is_empty() {
        put(&mut pod, &["spec", "subdomain"], service.into());
    }
    let templates = set.items(&["spec", "volumeClaimTemplates"]);
    let mut volumes = pod.items(&["spec", "volumes"]).to_vec();
    let mut steps = Vec::new();
    for template in templates {
        let volume = template.pointer("/metadata/name").and_then(Value::as_str);
        let volume = volume.unwrap_or_default();
        let claim = format!("{volume}-{name}");
        volumes.retain(|known| known.get("name") != Some(&volume.into()));
        let named = json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}});
        volumes.push(named);
        let id = Id::new(Kind::Claim, set.namespace(), &claim);
        if objects.get(&id).is_none() {
            steps.push(Step::Create(Kind::Claim, claim_of(set, template, &claim)));
        }
    }
    if !templates.is_empty() {
        put(&mut pod, &["spec", "volumes"], volumes.into());
    }
    steps.push(Step::Create(Kind::Pod, pod));
    steps
}

fn claim_of(set: &Object, template: &Value, name: &str) -> Object {
    let mut claim = Object::of(template.as_object().cloned().unwrap_or_default());
    claim.0.remove("status");
    claim.set_type("PersistentVolumeClaim", "v1");
    claim.set_meta("name", name);
    claim.set_meta("namespace", set.namespace());
    let labels = set
        .at(&["spec", "selector", "matchLabels"])
        .and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        put(
            &mut claim,
            &["metadata", "labels", key.as_str()],
            value.clone(),
        );
    }
    let policy = [
        "spec",
        "persistentVolumeClaimRetentionPolicy",
        "whenDeleted",
    ];
    if set.text(&policy) == "Delete" {
        let owners = owner(Kind::StatefulSet, set);
        put(&mut claim, &["metadata", "ownerReferences"], owners);
    }
    claim
}

fn status(
    set: &Object,
    pods: &BTreeMap<i64, Arc<Object>>,
    revision: &str,
    available: i64,
) -> Value {
    let alive: Vec<_> = pods
        .values()
        .filter(|pod| !pod.is_being_deleted())
        .collect();
    let with = |revision: &str| {
        let those = alive
            .iter()
            .filter(|pod| label(pod, REVISION_LABEL) == revision);
        count(those.copied())
    };
    let total = count(alive.iter().copied());
    let ready = count(alive.iter().copied().filter(|pod| is_ready(pod)));
    let updated = with(revision);
    let before = set.text(&["status", "currentRevision"]);
    let is_complete = updated == replicas(set) && total == updated && ready == updated;
    let current = if before.is_empty() || is_complete {
        revision
    } else {
        before
    };
    json!({
        "observedGeneration": set.at(&["metadata", "generation"]),
        "replicas": total, "readyReplicas": ready, "availableReplicas": available,
        "updatedReplicas": updated, "currentReplicas": with(current),
        "currentRevision": current, "updateRevision": revision, "collisionCount": 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::simulation::plan::tests::object;

    fn set(more: &Value) -> Object {
        let mut set = object(&json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}},
        }));
        for (name, value) in more.as_object().unwrap() {
            put(&mut set, &["spec", name.as_str()], value.clone());
        }
        set
    }

    fn add(objects: &mut Objects, set: &Object, ordinal: i64, is_ready: bool) {
        let hash = template_hash(set.at(&["spec", "template"]), 0);
        let steps = made(objects, set, ordinal, &format!("s-{hash}"));
        for step in steps {
            let Step::Create(kind, mut one) = step else {
                panic!("{step:?}");
            };
            let status = if is_ready { "True" } else { "False" };
            let conditions = json!([{"type": "Ready", "status": status}]);
            put(&mut one, &["status", "conditions"], conditions);
            objects.put(Id::of(kind, &one), one);
        }
    }

    fn names(objects: &Objects, set: &Object) -> Vec<String> {
        let plan = plan(objects, set, Timestamp::UNIX_EPOCH);
        let names = plan.steps.iter().filter_map(|step| match step {
            Step::Create(_, one) => Some(format!("+{}", one.name())),
            Step::Delete { id, .. } => Some(format!("-{}", id.name)),
            _ => None,
        });
        names.collect()
    }

    #[test]
    fn pods_come_one_after_another_with_their_claims() {
        let (mut objects, set) = (Objects::default(), set(&json!({})));
        assert_eq!(names(&objects, &set), ["+data-s-0", "+s-0"]);
        add(&mut objects, &set, 0, false);
        assert_eq!(names(&objects, &set), Vec::<String>::new());
        add(&mut objects, &set, 0, true);
        assert_eq!(names(&objects, &set), ["+data-s-1", "+s-1"]);
    }

    #[test]
    fn parallel_pods_come_at_once() {
        let set = set(&json!({"podManagementPolicy": "Parallel"}));
        assert_eq!(names(&Objects::default(), &set).len(), 4);
    }

    #[test]
    fn the_last_pod_goes_first() {
        let (mut objects, two) = (Objects::default(), set(&json!({})));
        add(&mut objects, &two, 0, true);
        add(&mut objects, &two, 1, true);
        assert_eq!(names(&objects, &two), Vec::<String>::new());
        assert_eq!(names(&objects, &set(&json!({"replicas": 0}))), ["-s-1"]);
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
        let changed = json!({"template": template});
        assert_eq!(names(&objects, &set(&changed)), ["-s-1"]);
        let partition = json!({"rollingUpdate": {"partition": 2}});
        let held = json!({"template": template, "updateStrategy": partition});
        assert_eq!(names(&objects, &set(&held)), Vec::<String>::new());
    }
}
