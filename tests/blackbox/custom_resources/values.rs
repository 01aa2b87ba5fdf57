//! The values of objects: keywords, formats, pruning, defaults, numbers, causes (crd.md 7 to 9).

use serde_json::{Value, json};

use super::{LAMPS, definition, establish, lamp, path_of, until, version};
use crate::harness::{Call, Client, Daemon};

/// Establishes lamps whose spec has these members.
async fn establish_with(client: &Client, members: Value) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": members}}});
    let lamps = definition("lamps", "Lamp", &json!([version("v1", true, &schema)]));
    establish(client, &lamps).await
}

/// Creates a lamp and returns its spec.
async fn spec_of(client: &Client, name: &str, spec: Value) -> Value {
    let made = client.call(Call::post(LAMPS, &lamp(name, spec))).await;
    made.expect(201)["spec"].clone()
}

/// Returns the reason and the field of each cause for which a lamp is refused.
async fn causes(client: &Client, spec: Value) -> Vec<[String; 2]> {
    let refused = client.call(Call::post(LAMPS, &lamp("bad", spec))).await;
    let refused = refused.refusal(422, "Invalid");
    let causes = refused["details"]["causes"].as_array().unwrap().iter();
    let causes = causes
        .map(|cause| ["reason", "field"].map(|name| cause[name].as_str().unwrap().to_owned()));
    causes.collect()
}

/// CRD-38, CRD-39, CRD-151, CRD-154, CRD-157: each keyword and format refuses what it should, with
/// the reason of its kind, and accepts zero values.
#[tokio::test]
async fn keywords_and_formats_refuse_by_their_reasons_crd_38_crd_39_crd_151_crd_154_crd_157() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let text = |format: &str| json!({"type": "string", "format": format});
    establish_with(
        &client,
        json!({
            "zeros": {"type": "object", "required": ["n", "t", "b", "l"], "properties": {
                "n": {"type": "integer"}, "t": {"type": "string"}, "b": {"type": "boolean"},
                "l": {"type": "array", "items": {"type": "integer", "minimum": 1}}}},
            "choice": {"type": "string", "enum": ["a", "b"]},
            "short": {"type": "string", "maxLength": 2, "minLength": 1},
            "few": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "small": {"type": "object", "maxProperties": 1, "minProperties": 1,
                "additionalProperties": {"type": "integer"}},
            "step": {"type": "number", "multipleOf": 0.5, "maximum": 2, "exclusiveMaximum": true},
            "name": {"type": "string", "pattern": "^[a-z]+$"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "logic": {"type": "integer", "allOf": [{"minimum": 2}], "anyOf": [{"maximum": 4},
                {"minimum": 8}], "oneOf": [{"maximum": 9}, {"minimum": 9}], "not": {"enum": [3]}},
            "either": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true, "maxLength": 1},
            "whole": {"type": "integer"},
            "ipv4": text("ipv4"), "uuid": text("uuid"), "email": text("email"),
            "time": text("date-time"), "label": text("k8s-short-name"), "odd": text("colour"),
            "byte": text("byte"),
        }),
    )
    .await;
    let good = json!({
        "zeros": {"n": 0, "t": "", "b": false, "l": []}, "choice": "a", "short": "é€",
        "few": ["x"], "small": {"a": 0}, "step": 1.5, "name": "abc", "set": ["a", "b"], "logic": 2,
        "either": 7, "maybe": null, "whole": 3.0, "ipv4": "10.0.0.1",
        "uuid": "0b0b0b0b-0000-4000-8000-000000000001", "email": "a@example.com",
        "time": "2020-01-01T00:00:00Z", "label": "a-b", "odd": "anything", "byte": "YQ==",
    });
    let kept = spec_of(&client, "good", good).await;
    assert_eq!((&kept["whole"], &kept["maybe"]), (&json!(3), &Value::Null));
    assert_eq!(kept["zeros"], json!({"n": 0, "t": "", "b": false, "l": []}));
    let (invalid, format) = ("FieldValueInvalid", "FieldValueTypeInvalid");
    for (member, value, reason, field) in [
        (
            "zeros",
            json!({"n": 0, "t": "", "b": false}),
            "FieldValueRequired",
            "spec.zeros.l",
        ),
        (
            "zeros",
            json!({"n": 0, "t": "", "b": false, "l": [1, 0]}),
            invalid,
            "spec.zeros.l[1]",
        ),
        (
            "choice",
            json!("c"),
            "FieldValueNotSupported",
            "spec.choice",
        ),
        ("short", json!("abc"), "FieldValueTooLong", "spec.short"),
        ("short", json!(""), invalid, "spec.short"),
        ("few", json!(["x", "y"]), "FieldValueTooMany", "spec.few"),
        (
            "small",
            json!({"a": 1, "b": 2}),
            "FieldValueTooMany",
            "spec.small",
        ),
        ("small", json!({}), invalid, "spec.small"),
        ("step", json!(1.25), invalid, "spec.step"),
        ("step", json!(2), invalid, "spec.step"),
        ("name", json!("a1"), invalid, "spec.name"),
        (
            "set",
            json!(["a", "b", "a"]),
            "FieldValueDuplicate",
            "spec.set[2]",
        ),
        ("logic", json!(1), invalid, "spec.logic"),
        ("logic", json!(3), invalid, "<nil>"),
        ("logic", json!(5), invalid, "<nil>"),
        ("logic", json!(9), invalid, "<nil>"),
        ("either", json!(1.5), "FieldValueTypeInvalid", "spec.either"),
        (
            "either",
            json!(true),
            "FieldValueTypeInvalid",
            "spec.either",
        ),
        ("whole", json!(1.5), "FieldValueTypeInvalid", "spec.whole"),
        ("maybe", json!("ab"), "FieldValueTooLong", "spec.maybe"),
        ("ipv4", json!("10.0.0.256"), format, "spec.ipv4"),
        ("uuid", json!("0b0b"), format, "spec.uuid"),
        ("email", json!("a"), format, "spec.email"),
        ("time", json!("yesterday"), format, "spec.time"),
        ("label", json!("a.b"), format, "spec.label"),
        ("byte", json!("?"), format, "spec.byte"),
    ] {
        let found = causes(&client, json!({member: value})).await;
        assert_eq!(found[0], [reason, field], "{member} {value}: {found:?}");
    }
}

/// CRD-117, CRD-154: integers keep all their digits, and integral numbers are integers.
#[tokio::test]
async fn numbers_keep_their_digits_crd_117() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    establish_with(
        &client,
        json!({"n": {"type": "integer"}, "x": {"type": "number"}, "free": free}),
    )
    .await;
    let text = r#"{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"a",
        "finalizers":["example.com/f"]},"spec":{"n":9223372036854775807,"x":1.0,
        "free":{"low":-9223372036854775808,"zero":0.0,"half":0.5}}}"#;
    let sent = Call::new("POST", LAMPS).body("application/json", text);
    client.call(sent).await.expect(201);
    let path = format!("{LAMPS}/a");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    client
        .call(Call::merge_patch(&path, &patch))
        .await
        .expect(200);
    let read = client.call(Call::get(&path)).await.text();
    for part in [
        "\"n\":9223372036854775807,\"x\":1}",
        "\"free\":{\"half\":0.5,\"low\":-9223372036854775808,\"zero\":0}",
        "\"finalizers\":[\"example.com/f\"]",
    ] {
        assert!(read.contains(part), "{part}: {read}");
    }
}

/// CRD-126, CRD-127, CRD-128, CRD-227: unknown fields are dropped, or kept where the schema keeps
/// them, and a strict request is refused with their paths.
#[tokio::test]
async fn unknown_fields_are_dropped_where_they_are_not_kept_crd_126_crd_127_crd_128_crd_227() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish_with(
        &client,
        json!({
            "known": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"typed": {"type": "object", "properties": {
                    "a": {"type": "integer"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                "a": {"type": "integer"}}}},
            "list": {"type": "array", "items": {"type": "object"}},
            "part": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
        }),
    )
    .await;
    let sent = json!({
        "known": {"a": 1, "b": 2}, "unknown": {"a": 1},
        "free": {"x": {"y": [{"z": 1}]}, "typed": {"a": 1, "b": 2}},
        "map": {"k": {"a": 1, "b": 2}}, "list": [{"a": 1}, {}],
        "part": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1},
            "spec": {"any": 1}},
    });
    let kept = json!({
        "known": {"a": 1}, "free": {"x": {"y": [{"z": 1}]}, "typed": {"a": 1}},
        "map": {"k": {"a": 1}}, "list": [{}, {}],
        "part": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"any": 1}},
    });
    let mut object = lamp("a", sent.clone());
    object["metadata"]["odd"] = json!(1);
    let strict = format!("{LAMPS}?fieldValidation=Strict");
    let refused = client.call(Call::post(&strict, &object)).await.expect(400);
    let message = refused["message"].as_str().unwrap();
    let (_, found) = message.split_once("strict decoding error: ").unwrap();
    let mut found: Vec<&str> = found.split(", ").collect();
    found.sort_unstable();
    let unknown = [
        "metadata.odd",
        "spec.free.typed.b",
        "spec.known.b",
        "spec.list[0].a",
        "spec.map.k.b",
        "spec.part.metadata.odd",
        "spec.unknown",
    ];
    assert_eq!(
        found,
        unknown.map(|path| format!("unknown field \"{path}\""))
    );
    let made = client.call(Call::post(LAMPS, &object)).await.expect(201);
    assert_eq!(made["spec"], kept);
    assert_eq!(made["metadata"].get("odd"), None);
    for root in ["apiVersion", "kind"] {
        assert_eq!(made[root], object[root]);
    }
}

/// CRD-136, CRD-142: objects and parts of one object share no default, and a default of an embedded
/// resource has clean metadata.
#[tokio::test]
async fn defaults_belong_to_one_object_each_crd_136_crd_142() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let part = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
        "metadata": {"type": "object", "default": {"labels": {"a": "b"}, "finalizers": ["f.g/h"],
                "odd": 1},
            "properties": {"name": {"type": "string"}, "labels": {"type": "object",
                "additionalProperties": {"type": "string"}}}}}});
    let list = json!({"type": "array", "items": {"type": "object", "properties": {
        "tags": {"type": "array", "default": ["x"], "items": {"type": "string"}}}}});
    let made = definition(
        "lamps",
        "Lamp",
        &json!([version(
            "v1",
            true,
            &json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"part": part, "list": list}}}})
        )]),
    );
    // Its unknown fields are dropped, and a default that is not valid is refused.
    let mut bad = made.clone();
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/part/\
                 properties/metadata/default";
    for wrong in [json!({"labels": {"a": 1}}), json!({"labels": {"": "x"}})] {
        *bad.pointer_mut(place).unwrap() = wrong;
        let refused = client.call(Call::post(super::DEFINITIONS, &bad)).await;
        refused.refusal(422, "Invalid");
    }
    establish(&client, &made).await;
    let given = json!({"list": [{}, {}], "part": {"apiVersion": "v1", "kind": "Pod"}});
    let full = json!({"list": [{"tags": ["x"]}, {"tags": ["x"]}], "part": {"apiVersion": "v1",
        "kind": "Pod", "metadata": {"labels": {"a": "b"}, "finalizers": ["f.g/h"]}}});
    assert_eq!(spec_of(&client, "a", given.clone()).await, full);
    assert_eq!(spec_of(&client, "b", given.clone()).await, full);
    let patch = json!([{"op": "add", "path": "/spec/list/0/tags/-", "value": "y"},
        {"op": "replace", "path": "/spec/part/metadata/labels/a", "value": "c"}]);
    let patch = Call::new("PATCH", &format!("{LAMPS}/a"))
        .body("application/json-patch+json", patch.to_string());
    let patched = client.call(patch).await.expect(200);
    assert_eq!(
        patched["spec"]["list"],
        json!([{"tags": ["x", "y"]}, {"tags": ["x"]}])
    );
    let other = client.call(Call::get(&format!("{LAMPS}/b"))).await;
    assert_eq!(other.expect(200)["spec"], full);
    assert_eq!(spec_of(&client, "c", given).await, full);
}

/// CRD-158: a finalizer without a domain is a warning, when it is new.
#[tokio::test]
async fn finalizers_without_a_domain_are_warned_of_crd_158() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish_with(&client, json!({"a": {"type": "integer"}})).await;
    let mut sent = lamp("a", json!({}));
    sent["metadata"]["finalizers"] = json!(["short", "example.com/f"]);
    let made = client.call(Call::post(LAMPS, &sent)).await;
    let warning = made.header("warning").unwrap().to_owned();
    assert!(
        warning
            .starts_with("299 - \"metadata.finalizers: \\\"short\\\": prefer a domain-qualified"),
        "{warning}"
    );
    made.expect(201);
    let patch = json!({"spec": {"a": 1}});
    let patched = client.call(Call::merge_patch(&format!("{LAMPS}/a"), &patch));
    let patched = patched.await;
    assert_eq!(patched.header("warning"), None);
    patched.expect(200);
}

/// CRD-161: errors in the logic of a schema, and of transition rules, stay errors though the value
/// has not changed.
#[tokio::test]
async fn some_errors_are_not_ratcheted_crd_161() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let schema = |own: Value, root: Value| {
        let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"n": own, "other": {"type": "integer"}}}}});
        schema
            .as_object_mut()
            .unwrap()
            .extend(root.as_object().unwrap().clone());
        json!([version("v1", true, &schema)])
    };
    let free = schema(json!({"type": "integer"}), json!({}));
    let path = path_of(&establish(&client, &definition("lamps", "Lamp", &free)).await);
    spec_of(&client, "a", json!({"n": 5})).await;
    let plain = json!({"type": "integer", "maximum": 4});
    let nested = json!({"allOf": [{"properties": {"spec": {"properties": {
        "n": {"maximum": 4}}}}}]});
    let rule = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self < oldSelf", "message": "must shrink"}]});
    let change = |at: usize| json!({"spec": {"other": at}});
    let one = format!("{LAMPS}/a");
    let mut at = 0;
    for (own, root, is_kept) in [
        (json!({"type": "integer"}), nested, false),
        (plain, json!({}), true),
        (rule, json!({}), false),
        (json!({"type": "integer"}), json!({}), true),
        (
            json!({"type": "integer"}),
            json!({"anyOf": [{"properties": {"spec": {"required": ["absent"]}}}]}),
            false,
        ),
    ] {
        at += 1;
        let versions = json!({"spec": {"versions": schema(own.clone(), root)}});
        client
            .call(Call::merge_patch(&path, &versions))
            .await
            .expect(200);
        // The outcomes alternate, so a wrong one shows the former schema, or a fault.
        let wanted = if is_kept { 200 } else { 422 };
        let is_wanted = |answer: &crate::harness::Answer| answer.status == wanted;
        let same = change(at);
        until(&client, || Call::merge_patch(&one, &same), is_wanted).await;
    }
}
