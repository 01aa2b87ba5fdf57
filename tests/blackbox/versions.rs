//! Versions of one object that have forms of their own.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Call, Daemon, Options, version};

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

/// API-229: events are the same in both groups, and selected by the names of each. The group
/// `events.k8s.io` is stricter.
#[tokio::test]
async fn an_event_is_one_object_in_two_groups() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let event = json!({
        "metadata": { "name": "e" }, "eventTime": "2024-01-02T03:04:05.000006Z",
        "reportingController": "ex.com/c", "reportingInstance": "i", "action": "Do",
        "reason": "Why", "type": "Normal", "note": "text",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
    });
    let created = client.call(Call::post(EVENTS, &event)).await.expect(201);
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

/// SF-48: what is not served is a 404 and missing from discovery, and comes back with its objects.
#[tokio::test]
async fn what_is_served_is_configuration() {
    let mut daemon = Daemon::start().await;
    let body = json!({ "metadata": { "name": "a" }, "spec": {} });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let client = daemon.client();
    client.call(Call::post(budgets, &body)).await.expect(201);
    let without = "--runtime-config=policy/v1=false,v1/secrets=false";
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
    daemon.stop(Signal::TERM).await;
    let daemon = Options::default().over(daemon.folder()).launch().await;
    daemon.ready().await;
    let client = daemon.client();
    client
        .call(Call::get(&format!("{budgets}/a")))
        .await
        .expect(200);
}
