//! Pure. ReplicaSets: as many pods as wanted.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::{FAILURE, Kind, count, dependents, is_available, is_ready, put_into, replicas};
use crate::api::object::Object;
use crate::controllers::simulation::objects::Objects;
use crate::controllers::simulation::plan::{
    Condition, Plan, Step, holds, is_finished, pod_of, selects, with_conditions, without_condition,
};

/// Pods that are created or deleted before the next look.
const AT_A_TIME: usize = 100;

/// The writes for a ReplicaSet. `refusal` says why its pods can't be created.
pub(super) fn plan(objects: &Objects, set: &Object, refusal: Option<&str>, now: Timestamp) -> Plan {
    let found = dependents(objects, Kind::ReplicaSet, set, Kind::Pod);
    if !found.steps.is_empty() {
        // The pods are known only afterwards.
        return Plan::of(found.steps);
    }
    let mut plan = Plan::default();
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
    let wanted = usize::try_from(replicas(set)).unwrap_or_default();
    let refusal = refusal.filter(|_| active.len() < wanted);
    let failure = refusal.map(|why| {
        let failure = Condition::new(FAILURE, true, "FailedCreate");
        failure.saying(why)
    });
    let mut status = json!({
        "observedGeneration": set.at(&["metadata", "generation"]),
        "replicas": count(&active), "fullyLabeledReplicas": count(labelled),
        "readyReplicas": count(active.iter().filter(|pod| is_ready(pod))),
        "availableReplicas": available,
    });
    if failure.is_some() || holds(set, FAILURE) {
        let conditions = with_conditions(set, failure.as_slice(), now);
        let conditions = match refusal {
            Some(_) => conditions,
            None => without_condition(conditions, FAILURE),
        };
        put_into(&mut status, "conditions", conditions);
    }
    let status = Step::status(Kind::ReplicaSet, set, status);
    // Steps end with the first one that fails, so the status of a failure precedes it.
    let (before, after) = match refusal {
        Some(_) => (status, None),
        None => (None, status),
    };
    plan.steps.extend(before);
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
    plan.steps.extend(after);
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::controllers::simulation::objects::Id;
    use crate::controllers::simulation::plan::owner;
    use crate::controllers::simulation::plan::tests::object;

    fn set(replicas: i64) -> Object {
        object(&json!({
            "metadata": {"name": "r", "namespace": "n", "uid": "u"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}},
        }))
    }

    fn pod(name: &str, labels: &Value, owners: &Value) -> Object {
        object(
            &json!({"metadata": {"name": name, "namespace": "n", "uid": name,
            "labels": labels, "ownerReferences": owners}}),
        )
    }

    fn planned(set: &Object, pods: Vec<Object>) -> Vec<Step> {
        let mut objects = Objects::default();
        for pod in pods {
            objects.put(Id::of(Kind::Pod, &pod), pod);
        }
        let plan = plan(&objects, set, None, Timestamp::UNIX_EPOCH);
        let is_status = |step: &Step| matches!(step, Step::Patch { part: Some(_), .. });
        plan.steps
            .into_iter()
            .filter(|step| !is_status(step))
            .collect()
    }

    #[test]
    fn there_are_as_many_pods_as_wanted() {
        let set_of_two = set(2);
        let owned = |name: &str| {
            pod(
                name,
                &json!({"a": "b"}),
                &owner(Kind::ReplicaSet, &set_of_two),
            )
        };
        assert_eq!(planned(&set_of_two, vec![]).len(), 2);
        assert_eq!(planned(&set_of_two, vec![owned("1"), owned("2")]), []);
        let mut on_node = owned("1");
        crate::api::object::put(&mut on_node, &["spec", "nodeName"], "x".into());
        let steps = planned(&set(1), vec![on_node, owned("2")]);
        assert!(
            matches!(&*steps, [Step::Delete { id, .. }] if id.name == "2"),
            "{steps:?}"
        );
    }

    #[test]
    fn pods_are_adopted_and_released_before_others_are_made() {
        let free = pod("free", &json!({"a": "b"}), &json!([]));
        let steps = planned(&set(2), vec![free]);
        assert!(matches!(&*steps, [Step::Patch { .. }]), "{steps:?}");
        let lost = pod(
            "lost",
            &json!({"a": "c"}),
            &owner(Kind::ReplicaSet, &set(2)),
        );
        let steps = planned(&set(2), vec![lost]);
        let [Step::Patch { patch, .. }] = &*steps else {
            panic!("{steps:?}");
        };
        assert_eq!(patch["metadata"]["ownerReferences"], json!([]));
    }

    #[test]
    fn a_refusal_is_in_the_status_until_it_ends() {
        let mut objects = Objects::default();
        let status = |objects: &Objects, set: &Object, refusal| {
            let plan = plan(objects, set, refusal, Timestamp::UNIX_EPOCH);
            let place = plan
                .steps
                .iter()
                .position(|step| matches!(step, Step::Patch { .. }));
            let place = place.unwrap();
            match &plan.steps[place] {
                Step::Patch { patch, .. } => (place, patch["status"].clone()),
                other => panic!("{other:?}"),
            }
        };
        let mut refused = set(1);
        let (place, failed) = status(&objects, &refused, Some("no"));
        // It is written although the creation fails.
        assert_eq!(place, 0);
        let condition = &failed["conditions"][0];
        assert_eq!(condition["type"], "ReplicaFailure");
        assert_eq!(condition["message"], "no");
        crate::api::object::put(&mut refused, &["status"], failed);
        let pod = pod("1", &json!({"a": "b"}), &owner(Kind::ReplicaSet, &refused));
        objects.put(Id::of(Kind::Pod, &pod), pod);
        assert_eq!(status(&objects, &refused, None).1["conditions"], json!([]));
    }
}
