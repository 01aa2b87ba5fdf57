//! Hostile schemas: refused, or bounded, before they are stored (CRD-13, CRD-31 to CRD-51).

use std::fmt::Write;

use serde_json::{Value, json};

use super::{DEFINITIONS, LAMPS, definition, establish, lamp, version};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body};

async fn attempt(client: &Client, schema: &Value) -> (u16, Value) {
    attempt_text(client, &schema.to_string()).await
}

/// Sends a schema in text, which may be deeper than a test could read it.
async fn attempt_text(client: &Client, schema: &str) -> (u16, Value) {
    let mark = json!({"type": "MARK"});
    let lamps = definition("lamps", "Lamp", &json!([version("v1", true, &mark)]));
    let body = lamps.to_string().replace(&mark.to_string(), schema);
    let call = Call::new("POST", &format!("{DEFINITIONS}?dryRun=All"));
    let answer = client.call(call.body("application/json", body)).await;
    let status = answer.status.as_u16();
    match status {
        // The object may be deep.
        201 => (status, Value::Null),
        _ => (status, answer.json()),
    }
}

/// The members of a schema that Kubernetes adds, each with a value that fits it.
fn extensions() -> [(&'static str, Value); 8] {
    [
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-map-keys", json!(["a"])),
        ("x-kubernetes-map-type", json!("atomic")),
        (
            "x-kubernetes-validations",
            json!([{"rule": "self == oldSelf"}]),
        ),
        ("x-kubernetes-nothing", json!({"a": [1]})),
    ]
}

/// CRD-33 to CRD-36, CRD-43 to CRD-46: each of these members in each place of a schema is accepted
/// or refused with a cause that names the place, alone and with each other one.
#[tokio::test]
async fn extensions_in_wrong_places_are_refused_with_their_places_crd_43() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let base = json!({"type": "object", "properties": {
        "o": {"type": "object", "properties": {"a": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "object", "required": ["a"],
            "properties": {"a": {"type": "string"}}}},
        "s": {"type": "string", "allOf": [{"maxLength": 3}], "not": {"enum": ["x"]}},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "e": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}});
    assert_eq!(attempt(&client, &base).await.0, 201);
    let places = [
        "",
        "/properties/o",
        "/properties/o/properties/a",
        "/properties/m",
        "/properties/m/additionalProperties",
        "/properties/l",
        "/properties/l/items",
        "/properties/l/items/properties/a",
        "/properties/s",
        "/properties/s/allOf/0",
        "/properties/s/not",
        "/properties/metadata",
        "/properties/metadata/properties/name",
        "/properties/e",
    ];
    let mut outcomes = String::new();
    for place in places {
        for (at, (one, value)) in extensions().iter().enumerate() {
            for (other, second) in &extensions()[at..] {
                let mut schema = base.clone();
                let members = schema.pointer_mut(place).unwrap();
                members[one] = value.clone();
                members[other] = second.clone();
                let (status, answer) = attempt(&client, &schema).await;
                let shown = format!("{place} {one} {other}");
                match status {
                    201 => writeln!(outcomes, "{shown}").unwrap(),
                    422 => {
                        let causes = answer["details"]["causes"].as_array().unwrap();
                        let begin = "spec.v";
                        assert!(
                            causes.iter().all(|cause| {
                                let field = cause["field"].as_str().unwrap();
                                field.starts_with(begin)
                            }),
                            "{shown}: {answer}"
                        );
                    }
                    _ => panic!("{shown}: {status} {answer}"),
                }
            }
        }
    }
    // An unknown extension is dropped wherever it is, so it alone is never refused.
    for place in places {
        let alone = format!("{place} x-kubernetes-nothing x-kubernetes-nothing");
        assert!(outcomes.contains(&alone), "{alone}");
    }
    // Nothing of this is allowed where values are validated only.
    let known = outcomes.lines().filter(|line| !line.contains("nothing"));
    let logic = known.filter(|line| line.contains("allOf") || line.contains("/not"));
    assert_eq!(logic.collect::<Vec<_>>(), [""; 0]);
}

/// CRD-13, CRD-51, CRD-230: deep, broad and costly schemas are answered with a Status, and the
/// daemon goes on.
#[tokio::test]
async fn deep_broad_and_costly_schemas_are_answered_crd_13_crd_51() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let object = |inside: Value| json!({"type": "object", "properties": {"a": inside}});
    let nested = |depth: usize, wrap: &dyn Fn(Value) -> Value| {
        (0..depth).fold(json!({"type": "string"}), |inside, _| wrap(inside))
    };
    let list = |inside: Value| json!({"type": "array", "items": inside});
    let rule = |rule: &str| json!([{"rule": rule}]);
    let mut lists = nested(4, &list);
    lists["x-kubernetes-validations"] =
        rule("self.all(a, a.all(b, b.all(c, c.all(d, d.matches('(a*)*b')))))");
    let many = |count: usize, of: &dyn Fn(usize) -> Value| {
        let members = (0..count).map(|at| (format!("p{at}"), of(at)));
        let members: serde_json::Map<String, Value> = members.collect();
        json!({"type": "object", "properties": members})
    };
    let ruled = |_: usize| {
        json!({"type": "string", "maxLength": 50_000, "x-kubernetes-validations":
            rule("self.split('').map(x, self.replace(x, self)).size() > 0")})
    };
    let schemas = [
        ("deep", nested(800, &object), &[422][..]),
        ("lists in lists", object(nested(500, &list)), &[422]),
        ("a bomb", object(lists), &[422]),
        ("rules", many(300, &ruled), &[422]),
        (
            "broad",
            many(20_000, &|_| json!({"type": "string"})),
            &[201],
        ),
        (
            "defaults",
            object(json!({"type": "string", "default": "x".repeat(1 << 20)})),
            &[201],
        ),
        (
            "a default of many",
            object(json!({"type": "array", "items": {"type": "string"},
                "default": vec!["x"; 100_000]})),
            &[201, 422],
        ),
        (
            "a pattern",
            object(json!({"type": "string", "pattern": "(((a{1,100}){1,100}){1,100})"})),
            &[422],
        ),
        (
            "an enum",
            object(json!({"type": "integer", "enum": (0..100_000).collect::<Vec<_>>()})),
            &[201],
        ),
        (
            "a long name",
            json!({"type": "object", "properties": {"n".repeat(1 << 20): {"type": "string"}}}),
            &[201, 422],
        ),
    ];
    for (name, schema, wanted) in schemas {
        let (status, answer) = attempt(&client, &schema).await;
        let shown: String = answer["message"].to_string().chars().take(300).collect();
        assert!(wanted.contains(&status), "{name}: {status} {shown}");
    }
    let begin = r#"{"type":"object","properties":{"a":"#;
    for depth in [2_000, 4_500, 20_000] {
        let deep = begin.repeat(depth) + r#"{"type":"string"}"# + &"}}".repeat(depth);
        let (status, answer) = attempt_text(&client, &deep).await;
        // The decoder refuses more than 10,000 levels, as Go's does.
        let wanted = if depth < 5_000 { 422 } else { 400 };
        assert_eq!(status, wanted, "{depth}: {answer}");
    }
    // Over the limit of a request (CRD-230).
    let large = object(json!({"type": "string", "description": "x".repeat(3 << 20)}));
    assert_eq!(attempt(&client, &large).await.0, 413);
    let call = Call::post(CONFIGMAPS, &body("alive", "1"));
    client.call(call).await.expect(201);
}

/// D-96: a schema of a hundred levels is served with its defaults, a deeper one is refused by name.
#[tokio::test]
async fn schemas_are_as_deep_as_all_threads_can_follow_crd_13() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let nested = |depth: usize| {
        let inside = json!({"type": "string", "default": "found"});
        let wrap = |inside: Value, _| json!({"type": "object", "default": {}, "properties": {"a": inside}});
        let mut schema = (0..depth).fold(inside, wrap);
        schema.as_object_mut().unwrap().remove("default");
        schema
    };
    let (status, answer) = attempt(&client, &nested(50)).await;
    assert_eq!(status, 422, "{answer}");
    let causes = answer["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1, "{answer}");
    assert_eq!(
        causes[0]["field"],
        "spec.versions[0].schema.openAPIV3Schema"
    );
    let message = causes[0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("must not have more than 100 nested objects and lists"),
        "{message}"
    );
    let v1 = version("v1", true, &nested(49));
    establish(&client, &definition("lamps", "Lamp", &json!([v1]))).await;
    let bare = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}});
    let made = client.call(Call::post(LAMPS, &bare)).await.expect(201);
    assert_eq!(made.pointer(&"/a".repeat(49)).unwrap(), "found");
    let document = client.call(Call::get("/openapi/v3/apis/example.com/v1"));
    let shown = document.await.expect(200);
    let schema = &shown["components"]["schemas"]["com.example.v1.Lamp"];
    assert_eq!(
        schema.pointer(&("/properties/a".repeat(49) + "/default")),
        Some(&json!("found"))
    );
}

/// CRD-176, CRD-177, CRD-178, CRD-179: an object whose rules cost too much, or are wrong for it, is
/// refused by name, in updates of its parts, too.
#[tokio::test]
async fn rules_that_cost_too_much_refuse_the_object_crd_176_crd_178() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "l": {"type": "array", "maxItems": 1000, "items": {"type": "integer"},
                "x-kubernetes-validations": [
                    {"rule": "self.all(x, self.exists(y, y >= x))"}]},
            "when": {"type": "string"}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.when) || timestamp(self.when).getFullYear() > 2000"}]},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.status) || !has(self.spec.replicas) \
                || self.status.replicas <= self.spec.replicas", "message": "too many"}]});
    let mut v1 = version("v1", true, &schema);
    v1["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas"}});
    establish(&client, &definition("lamps", "Lamp", &json!([v1]))).await;
    let rising: Vec<i32> = (0..1000).collect();
    let costly = lamp("a", json!({"l": rising}));
    let refused = client.call(Call::post(LAMPS, &costly)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("call cost exceeds limit for rule"),
        "{message}"
    );
    let wrong = lamp("a", json!({"when": "soon"}));
    let refused = client.call(Call::post(LAMPS, &wrong)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("evaluating rule: "), "{message}");
    let right = lamp("a", json!({"when": "2020-01-01T00:00:00Z", "replicas": 3}));
    client.call(Call::post(LAMPS, &right)).await.expect(201);
    let one = format!("{LAMPS}/a");
    let status = |replicas: u8| json!({"status": {"replicas": replicas}});
    let path = format!("{one}/status");
    client
        .call(Call::merge_patch(&path, &status(3)))
        .await
        .expect(200);
    for (path, patch) in [
        (format!("{one}/status"), status(4)),
        (format!("{one}/scale"), json!({"spec": {"replicas": 2}})),
    ] {
        let refused = client.call(Call::merge_patch(&path, &patch)).await;
        let refused = refused.expect(422);
        assert!(
            refused["message"].as_str().unwrap().contains("too many"),
            "{refused}"
        );
    }
}
