use serde_json::json;

use super::*;
use crate::kinds::definitions::{apps, core, storage};

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

fn now() -> Timestamp {
    "2024-01-02T03:04:05.678Z".parse().expect("a time")
}

fn deployment(value: Value) -> Object {
    let strategy = Strategy::of(apps::deployments());
    let created = strategy.created(object(value), now());
    created.expect("it is valid")
}

fn updated(value: Value, stored: &Object, subresource: &str) -> Object {
    let strategy = Strategy::of(apps::deployments());
    let updated = strategy.updated(object(value), stored, subresource, now());
    updated.expect("it is valid")
}

/// The smallest valid spec of a deployment with these replicas.
fn spec(replicas: i64) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    })
}

fn stored() -> Object {
    deployment(json!({
        "metadata": {"name": "a", "namespace": "d", "labels": {"l": "1"}},
        "spec": spec(1), "status": {"replicas": 1},
    }))
}

/// API-94, API-197, http.md 6.2: create sets uid, time in whole seconds and generation, and drops
/// status.
#[test]
fn creation_sets_the_system_fields() {
    let made = stored();
    assert_eq!(made.uid(), "u");
    assert_eq!(made.meta("creationTimestamp"), "2024-01-02T03:04:05Z");
    assert_eq!(generation_of(&made), 1);
    // The canonical form prints an empty status.
    assert_eq!(made.at(&["status"]), Some(&json!({})));
}

/// http.md 5.1: a kind without a rule keeps the generation that the body has.
#[test]
fn a_kind_without_a_generation_rule_keeps_what_it_is_given() {
    let sent = object(json!({"metadata": {"name": "a", "namespace": "d", "generation": 7}}));
    let strategy = Strategy::of(core::configmaps());
    let made = strategy.created(sent, now()).expect("it is valid");
    assert_eq!(generation_of(&made), 7);
}

/// API-103: fields that no update changes come from the stored object.
#[test]
fn an_update_keeps_the_system_fields() {
    let mut stored = stored();
    stored.set_meta("deletionTimestamp", "2024-01-02T03:05:05Z");
    put(
        &mut stored,
        &["metadata", "deletionGracePeriodSeconds"],
        0.into(),
    );
    let body = json!({
        "metadata": {"name": "a", "namespace": "d", "labels": {"l": "1"}, "generation": 9,
                     "creationTimestamp": "2001-01-01T00:00:00Z"},
        "spec": spec(1),
    });
    assert_eq!(updated(body, &stored, ""), stored);
}

/// API-197: spec and annotations of a deployment raise its generation, labels and status don't.
#[test]
fn generation_counts_changes_of_what_the_rule_names() {
    let stored = stored();
    let body = |metadata: Value, replicas: i64| {
        let mut body = json!({
            "metadata": {"name": "a", "namespace": "d"},
            "spec": spec(replicas), "status": {"replicas": 5},
        });
        let (Some(to), Some(from)) = (body["metadata"].as_object_mut(), metadata.as_object())
        else {
            panic!("both are objects");
        };
        to.extend(from.clone());
        body
    };
    let generation = |body, endpoint| generation_of(&updated(body, &stored, endpoint));
    assert_eq!(generation(body(json!({"labels": {"x": "y"}}), 1), ""), 1);
    assert_eq!(
        generation(body(json!({"annotations": {"x": "y"}}), 1), ""),
        2
    );
    assert_eq!(generation(body(json!({}), 2), ""), 2);
    assert_eq!(
        generation(body(json!({"annotations": {"x": "y"}}), 2), "status"),
        1
    );
}

/// API-197: the generation of a CSIDriver is as its creator says, and increases with its spec.
#[test]
fn the_generation_of_some_kinds_begins_as_given() {
    let body = |generation: Value, is_mounted: bool| {
        object(json!({
            "metadata": {"name": "a", "generation": generation},
            "spec": {"podInfoOnMount": is_mounted},
        }))
    };
    let strategy = Strategy::of(storage::csidrivers());
    for (given, starts, changed) in [(json!(null), 0, 1), (json!(7), 7, 8)] {
        let made = strategy.created(body(given, true), now());
        let made = made.expect("it is valid");
        assert_eq!(generation_of(&made), starts);
        for (is_mounted, expected) in [(true, starts), (false, changed)] {
            let next = strategy.updated(body(json!(3), is_mounted), &made, "", now());
            let next = next.expect("it is valid");
            assert_eq!(generation_of(&next), expected);
        }
    }
}

/// API-214, http.md 6.2: each endpoint writes its own part and silently keeps the other.
#[test]
fn endpoints_write_their_own_part() {
    let body = json!({
        "metadata": {"name": "a", "namespace": "d", "labels": {"x": "y"}},
        "spec": spec(7), "status": {"replicas": 7},
    });
    let main = updated(body.clone(), &stored(), "");
    assert_eq!(main.at(&["spec", "replicas"]), Some(&json!(7)));
    assert_eq!(main.at(&["status"]), Some(&json!({})));
    let status = updated(body, &stored(), "status");
    assert_eq!(status.at(&["spec", "replicas"]), Some(&json!(1)));
    assert_eq!(status.at(&["status", "replicas"]), Some(&json!(7)));
    assert_eq!(status.at(&["metadata", "labels"]), Some(&json!({"l": "1"})));
}

#[test]
fn values_are_put_and_removed_at_paths() {
    let mut value = object(json!({"a": 1}));
    put(&mut value, &["b", "c"], 2.into());
    put(&mut value, &["a", "d"], 3.into());
    assert_eq!(value, object(json!({"a": {"d": 3}, "b": {"c": 2}})));
    remove(&mut value, &["b", "c"]);
    remove(&mut value, &["x", "y"]);
    assert_eq!(value, object(json!({"a": {"d": 3}, "b": {}})));
}
