use serde_json::json;

use super::*;
use crate::api::resource::ResourceDefinition;
use crate::kinds::definitions::{apps, core};
use crate::storage::Preconditions;

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    at("2024-01-01T00:01:00Z")
}

fn decided(
    definition: ResourceDefinition,
    stored: &Object,
    options: &DeleteOptions,
) -> DeletionVerdict {
    let strategy = Strategy::of(definition);
    decide(&strategy, stored, options, Collector::Running, now()).expect("preconditions hold")
}

fn marked(verdict: DeletionVerdict) -> (Value, bool) {
    match verdict {
        DeletionVerdict::Mark {
            object,
            then_remove,
        } => (object.0["metadata"].clone(), then_remove),
        other => panic!("{other:?} marks nothing"),
    }
}

fn configmap(finalizers: &[&str]) -> Object {
    let mut object = object(json!({"metadata": {"name": "a", "namespace": "d"}}));
    object.set_finalizers(finalizers.iter().map(|f| (*f).to_owned()).collect());
    object
}

/// http.md 5.4: an object that nothing keeps is removed.
#[test]
fn an_object_without_finalizers_is_removed() {
    let verdict = decided(
        core::configmaps(),
        &configmap(&[]),
        &DeleteOptions::default(),
    );
    assert_eq!(verdict, DeletionVerdict::Remove);
    let any_grace = DeleteOptions {
        grace_period_seconds: Some(30),
        ..Default::default()
    };
    assert_eq!(
        decided(core::configmaps(), &configmap(&[]), &any_grace),
        DeletionVerdict::Remove
    );
}

/// API-113, API-115, API-198: the first deletion marks the object and raises its generation, a
/// second one changes nothing.
#[test]
fn an_object_with_finalizers_is_marked_once() {
    let mut stored = configmap(&["ex.com/a"]);
    set_generation(&mut stored, 4);
    let options = DeleteOptions::default();
    let DeletionVerdict::Mark {
        object,
        then_remove,
    } = decided(core::configmaps(), &stored, &options)
    else {
        panic!("it has a finalizer");
    };
    assert!(!then_remove);
    assert_eq!(object.meta("deletionTimestamp"), "2024-01-01T00:01:00Z");
    assert_eq!(object.at(GRACE), Some(&json!(0)));
    assert_eq!(generation_of(&object), 5);
    let again = DeletionVerdict::Mark {
        object: object.clone(),
        then_remove: false,
    };
    assert_eq!(decided(core::configmaps(), &object, &options), again);
}

/// API-111: messages name the Kind. API-224: messages for namespaces don't.
#[test]
fn preconditions_that_do_not_hold_are_conflicts() {
    let refused = |definition, preconditions| {
        let mut stored = configmap(&[]);
        stored.set_meta("uid", "u");
        stored.set_meta("resourceVersion", "7");
        let options = DeleteOptions {
            preconditions,
            ..Default::default()
        };
        let verdict = decide(
            &Strategy::of(definition),
            &stored,
            &options,
            Collector::Absent,
            now(),
        );
        verdict.map_err(|status| (status.code, status.message))
    };
    let uid = |uid: &str| Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    };
    let version = |v: &str| Preconditions {
        uid: None,
        resource_version: Some(v.to_owned()),
    };
    assert_eq!(
        refused(core::configmaps(), uid("u")),
        Ok(DeletionVerdict::Remove)
    );
    assert_eq!(
        refused(core::configmaps(), version("7")),
        Ok(DeletionVerdict::Remove)
    );
    let text = "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) \
                does not match the UID in record (u). The object might have been deleted and then \
                recreated";
    assert_eq!(
        refused(core::configmaps(), uid("x")),
        Err((409, text.to_owned()))
    );
    let text = "Operation cannot be fulfilled on namespaces \"a\": Precondition failed: \
                ResourceVersion in precondition: 8, ResourceVersion in object meta: 7";
    assert_eq!(
        refused(core::namespaces(), version("8")),
        Err((409, text.to_owned()))
    );
}

/// API-114: policies become finalizers and override the existing ones and the kind's default.
#[test]
fn policies_become_finalizers() {
    let policy = |policy| DeleteOptions {
        propagation_policy: Some(policy),
        ..Default::default()
    };
    let orphaning = |orphan| DeleteOptions {
        orphan_dependents: Some(orphan),
        ..Default::default()
    };
    let after = |present: &[&str], options: &DeleteOptions| {
        let strategy = Strategy::of(core::configmaps());
        finalizers_after(&strategy, &configmap(present), options, Collector::Running)
    };
    let unsaid = DeleteOptions::default();
    assert_eq!(after(&[], &policy(Propagation::Foreground)), [FOREGROUND]);
    assert_eq!(after(&[], &policy(Propagation::Orphan)), [ORPHAN]);
    assert_eq!(after(&[], &orphaning(true)), [ORPHAN]);
    assert!(after(&[], &orphaning(false)).is_empty());
    assert!(after(&[], &unsaid).is_empty());
    assert_eq!(
        after(&["a/f"], &policy(Propagation::Foreground)),
        ["a/f", FOREGROUND]
    );
    assert_eq!(
        after(&["a/f", ORPHAN], &policy(Propagation::Foreground)),
        ["a/f", FOREGROUND]
    );
    assert_eq!(
        after(&[FOREGROUND, "a/f"], &policy(Propagation::Orphan)),
        ["a/f", ORPHAN]
    );
    assert_eq!(
        after(&[ORPHAN, "a/f"], &policy(Propagation::Background)),
        ["a/f"]
    );
    assert_eq!(after(&[ORPHAN, "a/f"], &unsaid), [ORPHAN, "a/f"]);
    let strategy = Strategy::of(core::events());
    let orphan = policy(Propagation::Orphan);
    assert!(finalizers_after(&strategy, &configmap(&[]), &orphan, Collector::Running).is_empty());
}

/// SF-16: without a collector no component would remove the finalizers.
#[test]
fn no_finalizer_is_added_or_removed_while_nobody_collects() {
    let strategy = Strategy::of(core::configmaps());
    let background = DeleteOptions {
        propagation_policy: Some(Propagation::Background),
        ..Default::default()
    };
    let kept = configmap(&[ORPHAN]);
    let after = finalizers_after(&strategy, &kept, &background, Collector::Absent);
    assert_eq!(after, [ORPHAN]);
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let options = DeleteOptions {
            propagation_policy: Some(policy),
            ..Default::default()
        };
        let verdict = decide(
            &strategy,
            &configmap(&[]),
            &options,
            Collector::Absent,
            now(),
        );
        assert_eq!(verdict, Ok(DeletionVerdict::Remove));
    }
}

fn pod(spec: Value) -> Object {
    object(json!({"metadata": {"name": "a", "namespace": "d", "generation": 1}, "spec": spec}))
}

/// API-112: a pod on a node gets a grace period, and a repeated deletion can only shorten it.
#[test]
fn a_running_pod_is_given_time_to_end() {
    let options = |seconds| DeleteOptions {
        grace_period_seconds: seconds,
        ..Default::default()
    };
    let pod = pod(json!({"nodeName": "n", "terminationGracePeriodSeconds": 20}));
    let DeletionVerdict::Mark {
        object,
        then_remove,
    } = decided(core::pods(), &pod, &options(None))
    else {
        panic!("it runs");
    };
    assert!(!then_remove);
    assert_eq!(object.meta("deletionTimestamp"), "2024-01-01T00:01:20Z");
    assert_eq!(object.at(GRACE), Some(&json!(20)));
    assert_eq!(generation_of(&object), 2);
    assert_eq!(
        decided(core::pods(), &object, &options(None)),
        DeletionVerdict::Keep
    );
    assert_eq!(
        decided(core::pods(), &object, &options(Some(60))),
        DeletionVerdict::Keep
    );
    let (metadata, then_remove) = marked(decided(core::pods(), &object, &options(Some(5))));
    assert!(!then_remove);
    assert_eq!(metadata["deletionTimestamp"], "2024-01-01T00:01:05Z");
    assert_eq!(metadata["deletionGracePeriodSeconds"], 5);
    assert_eq!(metadata["generation"], 2);
    let (metadata, then_remove) = marked(decided(core::pods(), &object, &options(Some(0))));
    assert!(then_remove);
    assert_eq!(metadata["deletionGracePeriodSeconds"], 0);
}

/// API-112: if the shorter period has already passed, one second remains.
#[test]
fn a_shortened_time_that_is_over_leaves_one_second() {
    let mut stored = pod(json!({"nodeName": "n"}));
    stored.set_meta("deletionTimestamp", "2024-01-01T00:01:01Z");
    put(&mut stored, GRACE, 30.into());
    let options = DeleteOptions {
        grace_period_seconds: Some(10),
        ..Default::default()
    };
    let (metadata, _) = marked(decided(core::pods(), &stored, &options));
    assert_eq!(metadata["deletionTimestamp"], "2024-01-01T00:01:00Z");
    assert_eq!(metadata["deletionGracePeriodSeconds"], 1);
}

/// API-112: a pod without a node gets no grace period, but watchers see its mark.
#[test]
fn a_pod_on_no_node_is_marked_and_removed() {
    let (metadata, then_remove) = marked(decided(
        core::pods(),
        &pod(json!({})),
        &DeleteOptions::default(),
    ));
    assert!(then_remove);
    assert_eq!(metadata["deletionGracePeriodSeconds"], 0);
}

/// API-224: a namespace is marked without a grace period and removed when its contents are gone.
#[test]
fn a_namespace_terminates_before_it_goes() {
    let stored = object(json!({
        "metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }));
    let options = DeleteOptions::default();
    let DeletionVerdict::Mark {
        mut object,
        then_remove,
    } = decided(core::namespaces(), &stored, &options)
    else {
        panic!("it has contents");
    };
    assert!(!then_remove);
    assert_eq!(object.text(&["status", "phase"]), "Terminating");
    assert_eq!(object.at(GRACE), None);
    assert_eq!(
        decided(core::namespaces(), &object, &options),
        DeletionVerdict::Keep
    );
    let strategy = Strategy::of(core::namespaces());
    assert!(!is_released(&strategy, &object, &object));
    put(&mut object, &["spec"], json!({}));
    assert_eq!(
        decided(core::namespaces(), &object, &options),
        DeletionVerdict::Remove
    );
    assert!(is_released(&strategy, &object, &object));
}

/// API-106, API-210: removing the last finalizer releases a marked object unless its period still
/// runs.
#[test]
fn an_object_is_released_by_its_last_finalizer() {
    let deployments = Strategy::of(apps::deployments());
    let mut stored = configmap(&["ex.com/a"]);
    let emptied = configmap(&[]);
    assert!(!is_released(&deployments, &emptied, &stored));
    stored.set_meta("deletionTimestamp", "2024-01-01T00:00:00Z");
    assert!(is_released(&deployments, &emptied, &stored));
    assert!(!is_released(&deployments, &stored, &stored));
    put(&mut stored, GRACE, 30.into());
    assert!(!is_released(&Strategy::of(core::pods()), &emptied, &stored));
}
