//! How objects are served: unknown paths, versions, status and stored bytes (crd.md 4, 6, 8, 10 and
//! 12).

use serde_json::{Value, json};

use super::{
    LAMPS, definition, establish, gone, lamp, lamps, one_etcd, path_of, schema, until, version,
};
use crate::harness::{Answer, Call, Daemon};

/// A definition whose versions v1, which is stored, and v2 a webhook converts.
fn converted() -> Value {
    let versions = json!([
        version("v1", true, &schema()),
        version("v2", false, &schema())
    ]);
    let mut lamps = definition("lamps", "Lamp", &versions);
    lamps["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert"}}});
    lamps
}

/// CRD-80: groups and versions have documents, and unknown paths the page of the fallback.
#[tokio::test]
async fn unknown_paths_have_the_page_of_the_fallback_crd_80() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    for (path, kind) in [
        ("/apis/example.com", "APIGroup"),
        ("/apis/example.com/v1", "APIResourceList"),
        (LAMPS, "LampList"),
    ] {
        let found = client.call(Call::get(path)).await.expect(200);
        assert_eq!(found["kind"], kind, "{path}");
    }
    for path in [
        "/apis/other.example.com",
        "/apis/other.example.com/v1",
        "/apis/example.com/v9",
        "/apis/example.com/v9/namespaces/default/lamps",
        "/apis/example.com/v1/namespaces/default/rings",
        "/apis/example.com/v1/lamp",
    ] {
        let absent = client.call(Call::get(path)).await;
        assert_eq!(
            (absent.status.as_u16(), absent.text().trim()),
            (404, "404 page not found")
        );
    }
}

/// CRD-94: a version that is gone leaves entries of managers behind, which need no conversion.
#[tokio::test]
async fn managers_of_a_version_that_is_gone_disturb_nothing_crd_94() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let versions = json!([
        version("v1", true, &schema()),
        version("v2", false, &schema())
    ]);
    establish(&client, &definition("lamps", "Lamp", &versions)).await;
    let apply = |of: &str, manager: &str, spec: Value| {
        let path = LAMPS.replace("v1", of);
        let body = json!({"apiVersion": format!("example.com/{of}"), "kind": "Lamp",
            "metadata": {"name": "a"}, "spec": spec});
        Call::new("PATCH", &format!("{path}/a?fieldManager={manager}"))
            .body("application/apply-patch+yaml", body.to_string())
    };
    let made = apply("v2", "old", json!({"colour": "red"}));
    client.call(made).await.expect(201);
    let one = json!({"spec": {"versions": [version("v1", true, &schema())]}});
    client
        .call(Call::merge_patch(&path_of(&lamps()), &one))
        .await
        .expect(200);
    gone(&client, &LAMPS.replace("v1", "v2")).await;
    let applied = apply("v1", "new", json!({"watts": 7}));
    let applied = client.call(applied).await.expect(200);
    assert_eq!(applied["spec"], json!({"colour": "red", "watts": 7}));
    let watts = json!({"spec": {"watts": 8}});
    let patched = client.call(Call::merge_patch(&format!("{LAMPS}/a"), &watts));
    assert_eq!(patched.await.expect(200)["spec"]["watts"], 8);
}

/// CRD-140: a write is validated in the version of its request.
#[tokio::test]
async fn a_write_is_validated_in_the_version_of_its_request_crd_140() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let pinned = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string", "pattern": "^example.com/v2$"},
        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let versions = json!([version("v1", true, &pinned), version("v2", false, &pinned)]);
    establish(&client, &definition("lamps", "Lamp", &versions)).await;
    let mut sent = lamp("a", json!({"n": 1}));
    sent["apiVersion"] = json!("example.com/v2");
    let v2 = LAMPS.replace("v1", "v2");
    client.call(Call::post(&v2, &sent)).await.expect(201);
    let patch = json!({"spec": {"n": 2}});
    let patched = client.call(Call::merge_patch(&format!("{v2}/a"), &patch));
    assert_eq!(patched.await.expect(200)["spec"]["n"], 2);
    let patch = json!({"spec": {"n": 3}});
    let refused = client.call(Call::merge_patch(&format!("{LAMPS}/a"), &patch));
    let refused = refused.await.refusal(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "apiVersion");
}

/// CRD-144: an object that its schema changes no longer is sent as it is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_sent_as_they_are_stored_crd_144() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    let sent = lamp("a", json!({"colour": "red", "odd": 1, "free": {"x": 1.5}}));
    let made = client.call(Call::post(LAMPS, &sent)).await.text();
    let mut etcd = etcd_client::Client::connect(cluster.urls(), None)
        .await
        .unwrap();
    let found = etcd
        .get("/registry/example.com/lamps/default/a", None)
        .await;
    let stored = found.unwrap().kvs()[0]
        .value_str()
        .unwrap()
        .trim()
        .to_owned();
    let read = client.call(Call::get(&format!("{LAMPS}/a"))).await.text();
    let object: Value = serde_json::from_str(&read).unwrap();
    let version = &object["metadata"]["resourceVersion"];
    let read = read.replacen(&format!("\"resourceVersion\":{version},"), "", 1);
    assert_eq!(read.trim(), stored);
    assert!(made.contains("\"watts\":5"));
}

/// CRD-186: an endpoint of a status validates the status alone, and a stored spec that has become
/// invalid does not prevent it.
#[tokio::test]
async fn an_invalid_spec_does_not_prevent_a_status_crd_186() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let versions = |most: u32| {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer", "maximum": most}}},
            "status": {"type": "object", "properties": {
                "num": {"type": "integer", "maximum": 10}}}}});
        let mut v1 = version("v1", true, &schema);
        v1["subresources"] = json!({"status": {}});
        json!([v1])
    };
    establish(&client, &definition("lamps", "Lamp", &versions(10))).await;
    let made = client.call(Call::post(LAMPS, &lamp("a", json!({"n": 9}))));
    made.await.expect(201);
    let tighter = json!({"spec": {"versions": versions(5)}});
    let path = path_of(&lamps());
    client
        .call(Call::merge_patch(&path, &tighter))
        .await
        .expect(200);
    let new = lamp("b", json!({"n": 9}));
    let dry = format!("{LAMPS}?dryRun=All");
    let is_refused = |answer: &Answer| answer.status == 422;
    until(&client, || Call::post(&dry, &new), is_refused).await;
    let status = format!("{LAMPS}/a/status");
    let mut object = client.call(Call::get(&status)).await.expect(200);
    object["status"] = json!({"num": 10});
    let written = client.call(Call::put(&status, &object)).await.expect(200);
    assert_eq!(written["status"], json!({"num": 10}));
    let more = json!({"status": {"num": 11}});
    let refused = client.call(Call::merge_patch(&status, &more)).await;
    let refused = refused.refusal(422, "Invalid");
    let message = refused["message"].as_str().unwrap();
    let wanted = "Lamp.example.com \"a\" is invalid: status.num: Invalid value: 11: num in body \
                  should be less than or equal to 10";
    assert_eq!(message, wanted);
}

/// CRD-206, CRD-209: objects in the stored version need no webhook, and the others have none that
/// answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_the_stored_version_need_no_webhook_crd_206_crd_209() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &converted()).await;
    let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
    let red = lamp("a", json!({"colour": "red"}));
    client.call(Call::post(LAMPS, &red)).await.expect(201);
    let one = format!("{LAMPS}/a");
    let patch = json!({"spec": {"colour": "blue"}});
    client
        .call(Call::merge_patch(&one, &patch))
        .await
        .expect(200);
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["colour"], "blue");
    for kind in ["ADDED", "MODIFIED"] {
        assert_eq!(watch.event().await["type"], kind);
    }
    let v2 = LAMPS.replace("v1", "v2");
    for call in [
        Call::get(&format!("{v2}/a")),
        Call::get(&v2),
        Call::delete(&format!("{v2}/a")),
        Call::merge_patch(&format!("{v2}/a"), &patch),
    ] {
        let failed = client.call(call).await.expect(500);
        let message = failed["message"].as_str().unwrap();
        let beginning = "conversion webhook for example.com/v1, Kind=Lamp failed: ";
        assert!(message.starts_with(beginning), "{message}");
    }
    client.call(Call::delete(&one)).await.expect(200);
}
