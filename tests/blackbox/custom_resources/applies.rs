//! Server-side apply and patches of custom resources (crd.md 14 and 16).

use serde_json::{Value, json};

use super::{LAMPS, definition, establish, lamp, over_each, path_of, until, version};
use crate::harness::{Answer, Call, Client, Daemon};

/// A schema of a spec with these members.
fn of_spec(members: &Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": members},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}})
}

fn one_version(schema: &Value) -> Value {
    definition("lamps", "Lamp", &json!([version("v1", true, schema)]))
}

fn apply(path: &str, manager: &str, body: impl ToString) -> Call {
    let path = format!("{path}?fieldManager={manager}");
    Call::new("PATCH", &path).body("application/apply-patch+yaml", body.to_string())
}

fn one(name: &str) -> String {
    format!("{LAMPS}/{name}")
}

/// Returns the fields that a manager owns.
fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|entry| entry["manager"] == manager);
    own.map_or(Value::Null, |own| own["fieldsV1"].clone())
}

/// Changes the schemas of the definition, and waits until a version of the object shows that.
async fn change(client: &Client, versions: &Value, is: impl Fn(&Answer) -> bool, call: Call) {
    let patch = json!({"spec": {"versions": versions}});
    let path = path_of(&json!({"metadata": {"name": "lamps.example.com"}}));
    client
        .call(Call::merge_patch(&path, &patch))
        .await
        .expect(200);
    until(client, || call.clone(), is).await;
}

/// CRD-220, CRD-221: owners follow a schema whose part becomes atomic, and one that becomes
/// granular.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_follow_a_part_that_becomes_atomic_or_granular_crd_220() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let part = |kind: &str| {
            json!({"type": "object", "x-kubernetes-map-type": kind,
                "additionalProperties": {"type": "string"}})
        };
        let with = |part: &Value, mark: &str| {
            // A default that shows when the schema is served.
            of_spec(&json!({"part": part, mark: {"type": "string", "default": "served"}}))
        };
        establish(&client, &one_version(&with(&part("granular"), "mark"))).await;
        let body = |member: &str| lamp("a", json!({"part": {member: "1"}}));
        let path = one("a");
        client
            .call(apply(&path, "one", body("a")))
            .await
            .expect(201);
        let versions = json!([version("v1", true, &with(&part("atomic"), "first"))]);
        let has_mark =
            |mark: &'static str| move |answer: &Answer| answer.json()["spec"][mark] == "served";
        change(&client, &versions, has_mark("first"), Call::get(&path)).await;
        let refused = client.call(apply(&path, "two", body("b"))).await;
        let refused = refused.refusal(409, "Conflict");
        assert_eq!(refused["details"]["causes"][0]["field"], ".spec.part");
        let force = format!("{path}?force=true&fieldManager=two");
        let forced = Call::new("PATCH", &force);
        let forced = forced.body("application/apply-patch+yaml", body("b").to_string());
        let forced = client.call(forced).await.expect(200);
        assert_eq!(forced["spec"]["part"], json!({"b": "1"}));
        assert_eq!(owned(&forced, "two"), json!({"f:spec": {"f:part": {}}}));
        let versions = json!([version("v1", true, &with(&part("granular"), "second"))]);
        change(&client, &versions, has_mark("second"), Call::get(&path)).await;
        let both = client
            .call(apply(&path, "one", body("a")))
            .await
            .expect(200);
        assert_eq!(both["spec"]["part"], json!({"a": "1", "b": "1"}));
        // Whoever had the whole has the part itself then, and none of its members.
        assert_eq!(owned(&both, "two"), json!({"f:spec": {"f:part": {}}}));
    })
    .await;
}

/// CRD-222: an item of a list by keys may omit a key that has a default, and finalizers are a set.
#[tokio::test]
async fn an_item_may_omit_a_key_that_has_a_default_crd_222() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let items = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "v": {"type": "string"},
        "port": {"type": "integer", "default": 80}}});
    let ports = json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"]});
    establish(&client, &one_version(&of_spec(&json!({"ports": ports})))).await;
    let path = one("a");
    let mut first = lamp("a", json!({"ports": [{"name": "x", "v": "1"}]}));
    first["metadata"]["finalizers"] = json!(["example.com/one"]);
    client.call(apply(&path, "one", first)).await.expect(201);
    let mut second = lamp("a", json!({"ports": [{"name": "x", "port": 81, "v": "2"}]}));
    second["metadata"]["finalizers"] = json!(["example.com/two"]);
    let both = client.call(apply(&path, "two", second)).await.expect(200);
    assert_eq!(
        both["spec"]["ports"],
        json!([{"name": "x", "port": 80, "v": "1"}, {"name": "x", "port": 81, "v": "2"}])
    );
    assert_eq!(
        both["metadata"]["finalizers"],
        json!(["example.com/one", "example.com/two"])
    );
    let ports = &owned(&both, "two")["f:spec"]["f:ports"];
    assert!(ports.get("k:{\"name\":\"x\",\"port\":81}").is_some());
    let other = lamp("a", json!({"ports": [{"name": "x", "port": 80, "v": "3"}]}));
    client
        .call(apply(&path, "two", other))
        .await
        .refusal(409, "Conflict");
}

/// CRD-220: what does not fit the schema is refused before fields are validated, and without a
/// schema owners are deduced.
#[tokio::test]
async fn an_apply_that_does_not_fit_is_refused_as_a_whole_crd_220() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let members = json!({"n": {"type": "integer"}});
    establish(&client, &one_version(&of_spec(&members))).await;
    let begin = "failed to create typed patch object (/a; example.com/v1, Kind=Lamp): ";
    for (spec, why) in [
        (json!({"odd": 1}), ".spec.odd: field not declared in schema"),
        (
            json!({"n": "x"}),
            ".spec.n: expected numeric (int or float), got string",
        ),
    ] {
        for validation in ["Strict", "Ignore"] {
            let path = format!("{}?fieldManager=one&fieldValidation={validation}", one("a"));
            let sent = Call::new("PATCH", &path);
            let sent = sent.body(
                "application/apply-patch+yaml",
                lamp("a", spec.clone()).to_string(),
            );
            let refused = client.call(sent).await.expect(500);
            assert_eq!(refused["message"], format!("{begin}{why}"), "{validation}");
        }
    }
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut bulbs = definition("bulbs", "Bulb", &json!([version("v1", true, &free)]));
    bulbs["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    establish(&client, &bulbs).await;
    let body = json!({"apiVersion": "example.com/v1", "kind": "Bulb", "metadata": {"name": "a"},
        "spec": {"any": {"x": 1}, "list": [{"a": 1}, {"a": 1}]}, "status": {"n": 1}});
    let path = LAMPS.replace("lamps", "bulbs/a");
    let applied = client.call(apply(&path, "one", body)).await.expect(201);
    // The status is not written here, so it has no owner here.
    assert_eq!(
        owned(&applied, "one"),
        json!({"f:spec": {".": {}, "f:any": {".": {}, "f:x": {}}, "f:list": {}}})
    );
    assert_eq!(applied.get("status"), None);
}

/// CRD-220, CRD-223: owners of fields know the version by which they wrote, and conflicts are found
/// between versions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_of_several_versions_conflict_crd_223() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let one_form = of_spec(&json!({"a": {"type": "string"}, "only": {"type": "string"}}));
        let other_form = of_spec(&json!({"a": {"type": "string"}, "b": {"type": "string"}}));
        let versions = json!([
            version("v1", true, &one_form),
            version("v2", false, &other_form)
        ]);
        establish(&client, &definition("lamps", "Lamp", &versions)).await;
        let path = one("a");
        let body = lamp("a", json!({"a": "1", "only": "1"}));
        client.call(apply(&path, "one", body)).await.expect(201);
        let there = path.replace("/v1/", "/v2/");
        let mut body = lamp("a", json!({"a": "2"}));
        body["apiVersion"] = json!("example.com/v2");
        let refused = client.call(apply(&there, "two", &body)).await;
        let refused = refused.refusal(409, "Conflict");
        assert_eq!(refused["details"]["causes"][0]["field"], ".spec.a");
        body["spec"] = json!({"a": "1"});
        let shared = client.call(apply(&there, "two", &body)).await.expect(200);
        let entries = shared["metadata"]["managedFields"].as_array().unwrap();
        let versions = entries
            .iter()
            .map(|entry| entry["apiVersion"].as_str().unwrap());
        let mut versions: Vec<&str> = versions.collect();
        versions.sort_unstable();
        assert_eq!(versions, ["example.com/v1", "example.com/v2"]);
        assert_eq!(owned(&shared, "two"), json!({"f:spec": {"f:a": {}}}));
        // A write removes the fields that its version does not have (CRD-205).
        let read = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(read["spec"], json!({"a": "1"}));
    })
    .await;
}

/// CRD-220: keys that YAML 1.1 takes for booleans are members `true` and `false` in an apply, as in
/// the parser of kube-apiserver, and text in quotes stays text.
#[tokio::test]
async fn keys_of_yaml_1_1_are_read_as_kube_apiserver_reads_them_crd_220() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let free = json!({"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    establish(&client, &one_version(&of_spec(&free))).await;
    let body = "apiVersion: example.com/v1\nkind: Lamp\nmetadata: {name: a}\nspec:\n  free:\n    \
                y: 1\n    n: 2\n    'no': 3\n    1: 4\n    v: yes\n";
    let applied = client.call(apply(&one("a"), "one", body)).await.expect(201);
    assert_eq!(
        applied["spec"]["free"],
        json!({"true": 1, "false": 2, "no": 3, "1": 4, "v": true})
    );
}

/// CRD-224: a deep object with defaults at each level is applied in time that grows with its depth.
#[tokio::test]
async fn deep_objects_with_defaults_are_applied_crd_224() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let deep = |depth: usize| {
        (0..depth).fold(json!({"type": "string", "default": "x"}), |inside, _| {
            json!({"type": "object", "default": {}, "properties": {
                "a": inside, "b": {"type": "object", "default": {}, "properties": {
                    "c": {"type": "string", "default": "y"}}}}})
        })
    };
    establish(&client, &one_version(&of_spec(&json!({"root": deep(40)})))).await;
    let path = one("a");
    let body = lamp("a", json!({"root": {}}));
    let applied = client.call(apply(&path, "one", &body)).await.expect(201);
    let mut at = &applied["spec"]["root"];
    for _ in 0..40 {
        assert_eq!(at["b"]["c"], "y");
        at = &at["a"];
    }
    assert_eq!(at, "x");
    let again = client.call(apply(&path, "one", &body)).await.expect(200);
    assert_eq!(again, applied);
}

/// CRD-118, CRD-139: an empty patch writes what the schema shows and the store lacks, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_patch_after_a_change_of_the_schema_writes_crd_118() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let members = json!({"a": {"type": "string"}});
        establish(&client, &one_version(&of_spec(&members))).await;
        let path = one("a");
        let made = client
            .call(Call::post(LAMPS, &lamp("a", json!({"a": "1"}))))
            .await
            .expect(201);
        let members = json!({"a": {"type": "string"}, "b": {"type": "string", "default": "2"}});
        let versions = json!([version("v1", true, &of_spec(&members))]);
        let is_new = |answer: &Answer| answer.json()["spec"]["b"] == "2";
        change(&client, &versions, is_new, Call::get(&path)).await;
        let empty = || Call::merge_patch(&path, &json!({}));
        let written = client.call(empty()).await.expect(200);
        assert_ne!(
            written["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
        assert_eq!(client.call(empty()).await.expect(200), written);
    })
    .await;
}
