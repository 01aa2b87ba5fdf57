use serde_json::json;

use super::*;

fn custom(schema: &Value) -> CustomSchema {
    CustomSchema::new(Arc::new(StructuralSchema::compile(schema)))
}

fn object(value: Value) -> Object {
    Object::of(value.as_object().unwrap().clone())
}

fn errors(validate: impl FnOnce(&mut ErrorList) -> Structure) -> (Vec<String>, Structure) {
    let mut errors = ErrorList::new();
    let structure = validate(&mut errors);
    (errors.iter().map(ToString::to_string).collect(), structure)
}

/// CRD-131, CRD-137, CRD-121: members of metadata with wrong types are dropped one by one, also in
/// embedded objects; values with bad syntax stay.
#[test]
fn stored_objects_are_cleaned() {
    let custom = custom(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string", "default": "d"},
            "gone": {"type": "string"}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let mut stored = object(json!({
        "apiVersion": "g.example.com/v1", "kind": "A", "junk": 1,
        "metadata": {"name": "a", "labels": {"x": "-"}, "annotations": [1], "odd": 1,
            "creationTimestamp": null},
        "spec": {"gone": null, "junk": 1},
        "pod": {"apiVersion": 1, "kind": "Pod", "metadata": {"labels": [], "name": "p"}, "x": 1},
    }));
    custom.complete_stored(&mut stored);
    assert_eq!(
        Value::Object(stored.0.clone()),
        json!({
            "apiVersion": "g.example.com/v1", "kind": "A",
            "metadata": {"name": "a", "labels": {"x": "-"}, "generation": 1},
            "spec": {"a": "d"}, "pod": {"kind": "Pod", "metadata": {"name": "p"}, "x": 1},
        })
    );
    let once = stored.clone();
    custom.complete_stored(&mut stored);
    assert_eq!(stored, once);
}

/// CRD-128, CRD-129.
#[test]
fn values_without_a_schema_are_pruned_to_empty_objects() {
    let schema = json!({"type": "object", "properties": {
        "any": {"type": "object", "additionalProperties": true},
        "list": {"type": "array", "items": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}}},
    }});
    let mut custom = custom(&schema);
    let sent = json!({"any": {"a": {"b": 1}, "c": [{"d": 1}], "e": 1},
        "list": [{"x": {"y": null}, "known": {"a": null, "z": 1}}], "metadata": {}, "status": {}});
    let mut pruned = object(sent.clone());
    let unknown = custom.prune(&mut pruned);
    let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        unknown,
        [
            "unknown field \"any.a.b\"",
            "unknown field \"any.c[0].d\"",
            "unknown field \"list[0].known.z\"",
            "unknown field \"status\"",
        ]
    );
    assert_eq!(
        Value::Object(pruned.0),
        json!({"any": {"a": {}, "c": [{}], "e": 1},
            "list": [{"x": {"y": null}, "known": {}}], "metadata": {}})
    );
    custom.keeps_unknown = true;
    let mut kept = object(sent.clone());
    assert_eq!(custom.prune(&mut kept), []);
    assert_eq!(Value::Object(kept.0), sent);
}

/// CRD-155: uniqueness, its paths, and values that are equal in JSON only.
#[test]
fn items_of_sets_and_maps_differ() {
    let custom = custom(&json!({"type": "object", "properties": {
        "sets": {"type": "object", "additionalProperties": {
            "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"], "items": {"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "integer"}}}},
        "one": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object",
                "properties": {"a": {"type": "string", "nullable": true}}}},
    }}));
    let sent = object(json!({
        "sets": {"x": [1, 1.0, 1, 2, 1]},
        "map": [{"a": "x"}, {"a": "x", "b": 1}, {"a": "x"}],
        "one": [{}, {"a": null}, {}, {"a": null}, {}],
    }));
    let (found, _) = errors(|errors| custom.validate(&sent, errors));
    assert_eq!(
        found,
        [
            "map[2]: Duplicate value: {\"a\":\"x\"}",
            "one[2]: Duplicate value: {}",
            "one[3]: Duplicate value: {\"a\":null}",
            "sets[x][2]: Duplicate value: 1",
        ]
    );
    // A stored object with duplicates anywhere may have others.
    let stored = object(json!({"one": [{}, {}]}));
    let (found, _) = errors(|errors| custom.validate_update(&sent, &stored, errors));
    assert!(found.is_empty());
}

/// CRD-130: paths in maps, and no ratcheting.
#[test]
fn embedded_objects_are_validated_on_updates_too() {
    let custom = custom(&json!({"type": "object", "properties": {"pods": {
        "type": "object", "additionalProperties": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}}}));
    let bad = object(json!({"pods": {"a": {"kind": "", "metadata": {"labels": {"x": "-"}}}}}));
    let (found, structure) = errors(|errors| custom.validate_update(&bad, &bad, errors));
    assert_eq!(structure, Structure::Broken);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], "pods[a].apiVersion: Required value");
    assert_eq!(
        found[1],
        "pods[a].kind: Invalid value: \"\": must not be empty"
    );
    assert!(
        found[2].starts_with("pods[a].metadata.labels: Invalid value: \"-\""),
        "{}",
        found[2]
    );
}

/// CRD-186: the schema of the status alone, with paths below it.
#[test]
fn an_update_of_the_status_validates_the_status() {
    let mut custom = custom(
        &json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
            "status": {"type": "object", "properties": {
                "num": {"type": "integer", "maximum": 10, "anyOf": [{"minimum": 3}]},
                "old": {"type": "string", "maxLength": 1}}},
        }}),
    );
    custom.scale = Some(ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".status.old".to_owned()),
    });
    let stored = object(json!({"spec": {}, "status": {"old": "long", "num": 3}}));
    let sent = object(json!({"spec": {}, "status": {"old": "long", "num": 15}}));
    let (found, structure) = errors(|errors| custom.validate_status_update(&sent, &stored, errors));
    assert_eq!(
        found,
        ["status.num: Invalid value: 15: num in body should be less than or equal to 10"]
    );
    assert_eq!(structure, Structure::Valid);
    let sent = object(json!({"status": {"num": 1, "replicas": "x", "old": 5}}));
    let (found, _) = errors(|errors| custom.validate_status_update(&sent, &stored, errors));
    assert_eq!(
        found,
        [
            "status: Invalid value: \"\": \"num\" must validate at least one schema (anyOf)",
            "status.num: Invalid value: 1: num in body should be greater than or equal to 3",
            "status.old: Invalid value: \"integer\": old in body must be of type string: \
             \"integer\"",
            ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the \
             type string, expected int64",
            ".status.old: Invalid value: \"\": .status.old accessor error: 5 is of the type int64, \
             expected string",
        ]
    );
}
