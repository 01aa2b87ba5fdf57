//! Versions of one object that have schemas of their own.

use std::sync::Arc;

use actors::engine::{At, Engine, Key};
use rustix::process::Signal;
use serde_json::{Value, json};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::harness::{Call, Client, Daemon, Options, version};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const CORE: &str = "/api/v1/namespaces/default/events";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn autoscaler() -> Value {
    json!({ "metadata": { "name": "a" }, "spec": {
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
        "maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
    } })
}

/// API-255: an autoscaler is written, read, listed, watched and patched in both of its versions.
#[tokio::test]
async fn an_autoscaler_is_one_object_in_two_versions() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let created = client.call(Call::post(V1, &autoscaler())).await.expect(201);
    assert_eq!(created["apiVersion"], "autoscaling/v1");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 70);
    let from = version(&created);
    let path = |all: &str| format!("{all}/a");
    let in_v2 = client.call(Call::get(&path(V2))).await.expect(200);
    assert_eq!(in_v2["apiVersion"], "autoscaling/v2");
    let utilization = &in_v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"];
    assert_eq!(utilization, 70);
    assert_eq!(version(&in_v2), from);
    let listed = client.call(Call::get(V1)).await.expect(200);
    assert_eq!(listed["items"][0]["spec"], created["spec"]);

    let mut streams = Vec::new();
    for all in [V1, V2] {
        let watch = format!("{all}?watch=true&resourceVersion={from}");
        streams.push(client.watch(&watch).await);
    }
    let patch = json!({ "spec": { "targetCPUUtilizationPercentage": 50 } });
    let patched = client
        .call(Call::merge_patch(&path(V1), &patch))
        .await
        .expect(200);
    assert_eq!(patched["spec"]["targetCPUUtilizationPercentage"], 50);
    let event = streams[0].event().await;
    assert_eq!(event["object"], patched);
    let event = streams[1].event().await;
    let target = &event["object"]["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(
        (&target["averageUtilization"], &event["type"]),
        (&json!(50), &json!("MODIFIED"))
    );

    // Metrics that only v2 has live on in annotations of v1, and a writer of v1 keeps them.
    let memory = json!({ "type": "Resource", "resource": { "name": "memory",
        "target": { "type": "AverageValue", "averageValue": "1Gi" } } });
    let patch = json!({ "spec": { "metrics": [memory] } });
    client
        .call(Call::merge_patch(&path(V2), &patch))
        .await
        .expect(200);
    let mut in_v1 = client.call(Call::get(&path(V1))).await.expect(200);
    assert_eq!(in_v1["spec"].get("targetCPUUtilizationPercentage"), None);
    in_v1["spec"]["maxReplicas"] = json!(9);
    client.call(Call::put(&path(V1), &in_v1)).await.expect(200);
    let in_v2 = client.call(Call::get(&path(V2))).await.expect(200);
    assert_eq!(in_v2["spec"]["maxReplicas"], 9);
    assert_eq!(in_v2["spec"]["metrics"], json!([memory]));
    assert_eq!(in_v2["metadata"].get("annotations"), None);
    // A fault is shown in the form of the version in which objects are checked.
    let patch = json!({ "spec": { "maxReplicas": 0 } });
    let refused = client.call(Call::merge_patch(&path(V1), &patch)).await;
    let causes = &refused.refusal(422, "Invalid")["details"]["causes"];
    assert_eq!(causes[0]["field"], "spec.maxReplicas");
}

fn event() -> Value {
    json!({
        "metadata": { "name": "e" }, "eventTime": "2024-01-02T03:04:05.000006Z",
        "reportingController": "ex.com/c", "reportingInstance": "i", "action": "Do",
        "reason": "Why", "type": "Normal", "note": "text",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
    })
}

/// API-229: events are the same in both groups, and selected by the names of each. The group
/// `events.k8s.io` is stricter.
#[tokio::test]
async fn an_event_is_one_object_in_two_groups() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let created = client.call(Call::post(EVENTS, &event())).await.expect(201);
    assert_eq!(
        (&created["note"], created.get("message")),
        (&json!("text"), None)
    );
    let in_core = client
        .call(Call::get(&format!("{CORE}/e")))
        .await
        .expect(200);
    assert_eq!(in_core["message"], "text");
    assert_eq!(in_core["involvedObject"]["name"], "p");
    assert_eq!(in_core["reportingComponent"], "ex.com/c");
    for (all, selector) in [(CORE, "involvedObject.name"), (EVENTS, "regarding.name")] {
        let path = |value: &str| format!("{all}?fieldSelector={selector}%3D{value}");
        let listed = client.call(Call::get(&path("p"))).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{all}");
        let listed = client.call(Call::get(&path("q"))).await.expect(200);
        assert_eq!(listed["items"], json!([]), "{all}");
    }
    is_watched_in_both_groups(&client, version(&created)).await;
    let unknown = format!("{EVENTS}?fieldSelector=source%3Dx");
    client
        .call(Call::get(&unknown))
        .await
        .refusal(400, "BadRequest");
    let loose = json!({ "metadata": { "name": "f" },
        "involvedObject": { "namespace": "default" } });
    client.call(Call::post(CORE, &loose)).await.expect(201);
    let strict = json!({ "metadata": { "name": "g" }, "regarding": { "namespace": "default" } });
    let refused = client.call(Call::post(EVENTS, &strict)).await;
    let message = refused.refusal(422, "Invalid")["message"].to_string();
    assert!(message.contains("eventTime"), "{message}");
}

/// A change of the event and its deletion reach watches of each group in the form of that group.
async fn is_watched_in_both_groups(client: &Client, from: u64) {
    let mut streams = Vec::new();
    for (all, text) in [(CORE, "message"), (EVENTS, "note")] {
        let watch = format!("{all}?watch=true&resourceVersion={from}");
        streams.push((all, text, client.watch(&watch).await));
    }
    let patch = json!({ "metadata": { "labels": { "l": "1" } } });
    let path = format!("{CORE}/e");
    client
        .call(Call::merge_patch(&path, &patch))
        .await
        .expect(200);
    let mut changed = Vec::new();
    for (all, _, _) in &streams {
        changed.push(
            client
                .call(Call::get(&format!("{all}/e")))
                .await
                .expect(200),
        );
    }
    client.call(Call::delete(&path)).await.expect(200);
    for ((all, text, stream), changed) in streams.iter_mut().zip(changed) {
        let event = stream.event().await;
        assert_eq!(
            (&event["type"], &event["object"]),
            (&json!("MODIFIED"), &changed)
        );
        let event = stream.event().await;
        assert_eq!(event["type"], "DELETED", "{all}");
        assert_eq!(event["object"]["apiVersion"], changed["apiVersion"]);
        assert_eq!(event["object"][*text], "text", "{all}");
    }
    client.call(Call::post(EVENTS, &event())).await.expect(201);
}

/// The autoscaler and the event in each of their versions.
async fn shown(client: &Client) -> Vec<Value> {
    let mut shown = Vec::new();
    for path in [V1, V2, CORE, EVENTS] {
        let name = if path.ends_with("/events") { "e" } else { "a" };
        let object = client.call(Call::get(&format!("{path}/{name}"))).await;
        shown.push(object.expect(200));
    }
    shown
}

/// Stops the daemon and returns what lies in its store of the autoscaler and the event.
async fn stored(daemon: &mut Daemon) -> [Value; 2] {
    daemon.stop(Signal::TERM).await;
    let options = EmbeddedOptions::new(daemon.data());
    let engine: Arc<dyn Engine> = EmbeddedEngine::open(options).unwrap();
    let mut found = [Value::Null, Value::Null];
    let keys = ["horizontalpodautoscalers/default/a", "events/default/e"];
    for (key, value) in keys.into_iter().zip(&mut found) {
        let key = Key::new(format!("/registry/{key}"));
        let item = engine.get(key, At::Latest).await.unwrap().item.unwrap();
        *value = serde_json::from_slice(&item.value).unwrap();
    }
    engine.close().await;
    found
}

/// API-229, API-255: objects lie in the store in the version that is configured, and are read in
/// each, whichever it was when they were written.
#[tokio::test]
async fn the_stored_version_is_configuration_sf_41_sf_43_kv_24() {
    const VERSIONS: &str = "--storage.versions=autoscaling=v1,core/events=events.k8s.io/v1";
    let mut daemon = Daemon::with(&[VERSIONS]).await;
    let client = daemon.client();
    client.call(Call::post(V1, &autoscaler())).await.expect(201);
    client.call(Call::post(EVENTS, &event())).await.expect(201);
    let before = shown(&client).await;
    let [scaler, event] = stored(&mut daemon).await;
    assert_eq!(scaler["apiVersion"], "autoscaling/v1");
    assert_eq!(scaler["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(event["apiVersion"], "events.k8s.io/v1");
    assert_eq!(event["note"], "text");

    let mut daemon = Options::default().over(daemon.folder()).start().await;
    let client = daemon.client();
    assert_eq!(shown(&client).await, before);
    let patch = json!({ "metadata": { "labels": { "l": "1" } } });
    for path in [format!("{V2}/a"), format!("{CORE}/e")] {
        client
            .call(Call::merge_patch(&path, &patch))
            .await
            .expect(200);
    }
    let before = shown(&client).await;
    let [scaler, event] = stored(&mut daemon).await;
    assert_eq!(scaler["apiVersion"], "autoscaling/v2");
    let target = &scaler["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 70);
    assert_eq!(
        (&event["apiVersion"], &event["message"]),
        (&json!("v1"), &json!("text"))
    );

    let options = Options::default().over(daemon.folder());
    let daemon = options.arguments(&[VERSIONS]).start().await;
    assert_eq!(shown(&daemon.client()).await, before);
}

/// http.md 10.1: gates that are off take away what they stand for.
#[tokio::test]
async fn gates_that_are_obeyed_switch_things_off_api_26_api_84() {
    let gates = "--feature-gates=WatchList=false,StorageVersionHash=false,\
                 APIResponseCompression=false,HPAScaleToZero=true,\
                 ComponentStatusz=false,ComponentFlagz=false";
    let daemon = Daemon::with(&[gates]).await;
    let client = daemon.client();
    let initial =
        format!("{CORE}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let refused = client.call(Call::get(&initial)).await;
    let causes = &refused.refusal(422, "Invalid")["details"]["causes"];
    assert_eq!(causes[0]["field"], "sendInitialEvents", "{causes}");
    // A plain watch has them all the same.
    client.call(Call::post(EVENTS, &event())).await.expect(201);
    let mut events = client.watch(&format!("{CORE}?watch=true")).await;
    assert_eq!(events.event().await["type"], "ADDED");

    let list = Call::get("/api/v1").header("accept-encoding", "gzip");
    let list = client.call(list).await;
    assert_eq!(list.header("content-encoding"), None);
    let document = Call::get("/openapi/v2").header("accept-encoding", "gzip");
    let document = client.call(document).await;
    assert_eq!(document.header("content-encoding"), Some("gzip"));
    let list = list.text();
    assert!(
        !list.contains("storageVersionHash") && list.len() > 4096,
        "{list}"
    );
    for page in ["/statusz", "/flagz"] {
        assert_eq!(client.call(Call::get(page)).await.status, 404, "{page}");
    }
    let log = daemon.stderr();
    assert!(
        log.contains("feature-gates=HPAScaleToZero: changes nothing here"),
        "{log}"
    );
    assert!(!log.contains("feature-gates=WatchList"), "{log}");
}

/// SF-48: what is not served is a 404 and missing from discovery, and comes back with its objects.
#[tokio::test]
async fn what_is_served_is_configuration() {
    let mut daemon = Daemon::start().await;
    let body = json!({ "metadata": { "name": "a" }, "spec": {} });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let client = daemon.client();
    client.call(Call::post(budgets, &body)).await.expect(201);
    let without = "--runtime-config=policy/v1=false,v1/secrets=false,v1/bindings=false";
    daemon.stop(Signal::TERM).await;
    let options = Options::default().over(daemon.folder());
    let mut daemon = options.arguments(&[without]).launch().await;
    daemon.ready().await;
    let client = daemon.client();
    assert_eq!(client.call(Call::get(budgets)).await.status, 404);
    let groups = client.call(Call::get("/apis")).await.text();
    assert!(
        !groups.contains("\"policy\"") && groups.contains("\"batch\""),
        "{groups}"
    );
    let resources = client.call(Call::get("/api/v1")).await.text();
    assert!(!resources.contains("secrets") && resources.contains("configmaps"));
    // Pods are bound through their own endpoint all the same.
    assert!(resources.contains("\"pods/binding\"") && !resources.contains("\"bindings\""));
    let bindings = "/api/v1/namespaces/default/bindings";
    let binding = json!({ "metadata": { "name": "p" }, "target": { "name": "n" } });
    assert_eq!(
        client.call(Call::post(bindings, &binding)).await.status,
        404
    );
    let log = daemon.stderr();
    assert!(!log.contains("so it has no effect"), "{log}");
    daemon.stop(Signal::TERM).await;
    let daemon = Options::default().over(daemon.folder()).launch().await;
    daemon.ready().await;
    let client = daemon.client();
    client
        .call(Call::get(&format!("{budgets}/a")))
        .await
        .expect(200);
}
