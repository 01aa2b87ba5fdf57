//! Bad patches of mutating webhooks (HK-24 to HK-28).

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{NAME, create, install, number, remove, responds, webhook};
use crate::harness::hostile_server::HostileServer;
use crate::harness::{CONFIGMAPS, Call, Daemon, configmap};

/// A patch, the code of the answer to a create, and a part of its message.
struct Case {
    name: &'static str,
    code: u16,
    text: &'static str,
    patch: String,
}

fn case(name: &'static str, code: u16, text: &'static str, patch: &Value) -> Case {
    text_case(name, code, text, patch.to_string())
}

fn text_case(name: &'static str, code: u16, text: &'static str, patch: String) -> Case {
    Case {
        name,
        code,
        text,
        patch,
    }
}

fn one(op: &str, path: &str, value: Value) -> Value {
    json!([{"op": op, "path": path, "value": value}])
}

const UNDECODABLE: &str = "received undecodable patch in webhook response";

fn of_operations() -> Vec<Case> {
    let test = json!({"op": "test", "path": "/data/k", "value": "0"});
    let at = |path: &str| one("add", path, json!("v"));
    let copies = |from: &str, to: fn(usize) -> String, count: usize| {
        let copy = |number| json!({"op": "copy", "from": from, "path": to(number)});
        (0..count).map(copy).collect::<Value>()
    };
    let into = |number: usize| format!("/data/c{number}");
    let mut chain = vec![one("add", "/x", json!({"a": "x".repeat(1000)}))[0].clone()];
    let nested = |number| json!({"op": "copy", "from": "/x", "path": format!("/x/c{number}")});
    chain.extend((0..40).map(nested));
    let long: Vec<u8> = vec![0; 1_500_000];
    let mut front = vec![one("add", "/x", json!(long))[0].clone()];
    front.extend(vec![
        json!({"op": "add", "path": "/x/0", "value": 1});
        9_000
    ]);
    let mut moved = vec![one("add", "/x", json!(long))[0].clone()];
    for _ in 0..4_000 {
        moved.push(json!({"op": "move", "from": "/x", "path": "/y"}));
        moved.push(json!({"op": "move", "from": "/y", "path": "/x"}));
    }
    vec![
        case(
            "10,001 operations",
            500,
            UNDECODABLE,
            &json!(vec![test.clone(); 10_001]),
        ),
        case("10,000 operations", 201, "", &json!(vec![test; 10_000])),
        case("many copies", 201, "", &copies("/data/k", into, 1_000)),
        case(
            "a chain of copies",
            500,
            "accumulated size increase",
            &json!(chain),
        ),
        case("long insertions", 500, "exceeds the limit", &json!(front)),
        case("long moves", 500, "exceeds the limit", &json!(moved)),
        case(
            "a test that fails",
            500,
            "testing value /data/k failed: test failed",
            &one("test", "/data/k", json!("1")),
        ),
        case(
            "a test of nothing",
            500,
            "test",
            &one("test", "/none/k", json!("1")),
        ),
        case("into a text", 500, "doc is missing path", &at("/data/k/x")),
        case(
            "into a number",
            500,
            "doc is missing path",
            &at("/metadata/name/0/x"),
        ),
        case("no slash", 500, "doc is missing path", &at("data")),
        case(
            "a long path",
            500,
            "doc is missing path",
            &at(&"/a".repeat(500_000)),
        ),
        case(
            "an unknown operation",
            500,
            "Unexpected kind: spoil",
            &one("spoil", "/data", Value::Null),
        ),
        case("no list", 500, UNDECODABLE, &json!({"op": "add"})),
        case("a list of numbers", 500, UNDECODABLE, &json!([1])),
        case(
            "a list of null",
            500,
            "Unexpected kind: unknown",
            &json!([null]),
        ),
        text_case("no JSON", 500, UNDECODABLE, "%".repeat(100)),
        text_case(
            "a cut patch",
            500,
            UNDECODABLE,
            "[{\"op\":\"add\"".to_owned(),
        ),
        text_case("a million brackets", 500, UNDECODABLE, "[".repeat(1 << 20)),
        text_case(
            "tiny lists",
            500,
            UNDECODABLE,
            format!("[{}0]", "[],".repeat(3_000_000)),
        ),
        case("nothing", 201, "", &json!([])),
        case("null", 201, "", &Value::Null),
    ]
}

fn of_objects() -> Vec<Case> {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let meta = |name: &str, value: Value| one("add", &format!("/metadata/{name}"), value);
    vec![
        case(
            "3 MiB",
            413,
            "the limit is 3145728 bytes",
            &one("add", "/data/b", json!("x".repeat(4 << 20))),
        ),
        case(
            "2 MiB",
            422,
            "Too long",
            &one("add", "/data/b", json!("x".repeat(2 << 20))),
        ),
        case(
            "a wrong type",
            500,
            "json: cannot unmarshal",
            &one("add", "/data", json!([1])),
        ),
        case(
            "another kind",
            500,
            "illegal base64 data at input byte 0",
            &one("replace", "/kind", json!("Secret")),
        ),
        case(
            "another version",
            500,
            "no kind \"ConfigMap\" is registered for version \"apps/v1\"",
            &one("replace", "/apiVersion", json!("apps/v1")),
        ),
        case(
            "no object",
            500,
            "cannot unmarshal array into Go value of type struct",
            &one("replace", "", json!(["x"])),
        ),
        case(
            "300 levels",
            500,
            "cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            &text_of_levels(300),
        ),
        case("a uid", 201, "", &meta("uid", json!("mine"))),
        case(
            "a creation",
            201,
            "",
            &meta("creationTimestamp", json!("1999-01-01T00:00:00Z")),
        ),
        case(
            "a deletion",
            201,
            "",
            &meta("deletionTimestamp", json!("1999-01-01T00:00:00Z")),
        ),
        case(
            "a resourceVersion",
            500,
            "resourceVersion should not be set",
            &meta("resourceVersion", json!("7")),
        ),
        case(
            "no version",
            500,
            "ObjectMeta.metadata.resourceVersion of type string",
            &meta("resourceVersion", json!({})),
        ),
        case(
            "another namespace",
            400,
            "namespace",
            &meta("namespace", json!("kube-system")),
        ),
        case(
            "bad fields",
            201,
            "",
            &meta(
                "managedFields",
                json!([{"manager": "x",
            "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV9"}]),
            ),
        ),
        case(
            "fields of a wrong type",
            500,
            "ObjectMeta.metadata.managedFields of type []v1.ManagedFieldsEntry",
            &meta("managedFields", json!({"a": 1})),
        ),
        case(
            "two equal owners",
            201,
            "",
            &meta("ownerReferences", json!([owner, owner])),
        ),
        case(
            "an owner without a name",
            422,
            "ownerReferences",
            &meta(
                "ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "uid": "u"}]),
            ),
        ),
        case(
            "a bad finalizer",
            422,
            "finalizers",
            &meta("finalizers", json!(["a b/c"])),
        ),
        case(
            "a bad label",
            422,
            "labels",
            &meta("labels", json!({"a": "b c"})),
        ),
        case(
            "long annotations",
            422,
            "annotations: Too long",
            &meta("annotations", json!({"a": "x".repeat(300_000)})),
        ),
        case(
            "a bad name",
            422,
            "metadata.name",
            &meta("name", json!("A B")),
        ),
        case(
            "no name",
            422,
            "name or generateName is required",
            &one("remove", "/metadata", Value::Null),
        ),
    ]
}

fn text_of_levels(levels: usize) -> Value {
    let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut reader = serde_json::Deserializer::from_str(&text);
    reader.disable_recursion_limit();
    let value: Value = serde::Deserialize::deserialize(&mut reader).unwrap();
    one("add", "/data", value)
}

fn patches(patch: &str) -> Value {
    json!({"patch": BASE64_STANDARD.encode(patch), "patchType": "JSONPatch"})
}

/// HK-24 to HK-27: each bad patch has one answer, stores nothing unless it is allowed, and takes
/// bounded memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_patches_have_one_end_hk_25_to_hk_27() {
    let mut all = of_operations();
    all.extend(of_objects());
    let all = Arc::new(all);
    let served = Arc::clone(&all);
    let respond = move |asked: &_| responds(asked, &patches(&served[number(asked)].patch));
    let server = HostileServer::start(respond).await;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    // The collector deletes an object whose owner is absent, which is not counted here.
    let creates = json!({"timeoutSeconds": 30, "rules": [{"apiGroups": [""],
        "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]});
    let hook = webhook(NAME, server.client_config("/hook"), &creates);
    install(&client, true, "bad", &json!([hook])).await;
    let rest = daemon.peak();
    let mut faults = Vec::new();
    for (place, case) in all.iter().enumerate() {
        let (code, object) = create(&client, &format!("case-{place}")).await;
        let message = object["message"].as_str().unwrap_or_default();
        if code != case.code || !message.contains(case.text) {
            faults.push(format!("{}: {code} {message:.300}", case.name));
        }
        let stored = client
            .call(Call::get(&configmap(&format!("case-{place}"))))
            .await;
        let may_be_collected = case.name == "two equal owners" && stored.status == 404;
        if !may_be_collected && (stored.status == 200) != (code == 201) {
            faults.push(format!("{}: stored with {}", case.name, stored.status));
        }
        if code == 201 && !may_be_collected {
            let metadata = &stored.json()["metadata"];
            let own =
                metadata["uid"] != "mine" && metadata["creationTimestamp"].as_str() > Some("2020");
            let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
            if !own || owners > 1 {
                faults.push(format!("{}: {metadata}", case.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(daemon.peak() - rest < 256.0, "{} MiB", daemon.peak() - rest);
    let counted = daemon
        .count("apiserver_admission_webhook_request_total")
        .await;
    assert_eq!(counted, all.len() as u64);
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
}

/// HK-27, HK-28: a patch in an answer about a deletion is an error, and an update keeps what the
/// system owns.
#[tokio::test]
async fn patches_of_deletions_and_updates_keep_what_the_system_owns_hk_27_hk_28() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for name in ["a", "b"] {
        assert_eq!(create(&client, name).await.0, 201);
    }
    let patch = json!([
        {"op": "add", "path": "/metadata/uid", "value": "mine"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]);
    let patch = patch.to_string();
    let server = HostileServer::start(move |asked| responds(asked, &patches(&patch))).await;
    let hook = webhook(
        NAME,
        server.client_config("/hook"),
        &json!({"failurePolicy": "Ignore"}),
    );
    install(&client, true, "bad", &json!([hook])).await;
    let refused = client.call(Call::delete(&configmap("a"))).await;
    let text = "Internal error occurred: admission webhook \"w.example.com\" attempted to modify \
                the object, which is not supported for this operation";
    assert_eq!(refused.refusal(500, "InternalError")["message"], text);
    let data = json!({"data": {"k": "1"}});
    let refused = client.call(Call::merge_patch(&configmap("a"), &data)).await;
    let invalid = refused.refusal(422, "Invalid");
    let text =
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"mine\": field is immutable";
    assert_eq!(invalid["message"], text);
    // Some objects of a collection may be gone before one is refused, here none is.
    let refused = client.call(Call::delete(CONFIGMAPS)).await;
    assert_eq!(refused.status, 500);
    remove(&client, true, "bad").await;
    for name in ["a", "b"] {
        let object = client.call(Call::get(&configmap(name))).await.expect(200);
        assert_eq!(object["data"], json!({"k": "0"}));
        assert_eq!(object["metadata"].get("labels"), None);
    }
}

/// HK-26: values of a patch are as deep as those of a body.
#[tokio::test]
async fn values_of_patches_are_as_deep_as_bodies_hk_26() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let lamps = "/apis/example.com/v1/namespaces/default/lamps";
    super::define(&client, "lamps", "Lamp", "Namespaced", lamps).await;
    let server = HostileServer::start(|asked| {
        let levels = number(asked);
        let patch = format!(
            "[{{\"op\":\"add\",\"path\":\"/spec\",\"value\":{}{}}}]",
            "[".repeat(levels),
            "]".repeat(levels)
        );
        responds(asked, &patches(&patch))
    });
    let server = server.await;
    let rules = json!({"rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "resources": ["lamps"], "operations": ["*"]}]});
    let hook = webhook(NAME, server.client_config("/hook"), &rules);
    install(&client, true, "deep", &json!([hook])).await;
    for (levels, code) in [
        (100, 201),
        (300, 201),
        (9_000, 201),
        (10_001, 500),
        (200_000, 500),
    ] {
        let body = json!({"apiVersion": "example.com/v1", "kind": "Lamp",
            "metadata": {"name": format!("lamp-{levels}")}});
        let answer = client.call(Call::post(lamps, &body)).await;
        let text = answer.text();
        assert_eq!(answer.status, code, "{levels}: {text:.300}");
        if code == 201 {
            assert!(text.contains(&"[".repeat(levels)), "{levels}: {text:.300}");
        }
    }
}
