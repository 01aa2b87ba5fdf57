//! Objects of custom resources: reading, writing, validation and subresources (crd.md 4, 7 to 10).

use serde_json::{Value, json};

use super::{LAMPS, definition, establish, lamp, lamps, over_each, version};
use crate::harness::{Call, Daemon};

fn of(name: &str) -> String {
    format!("{LAMPS}/{name}")
}

/// CRD-88, CRD-120, CRD-121, CRD-125, CRD-135, CRD-152, CRD-225: pruning, defaults, validation,
/// generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_follow_their_schema_crd_125_crd_135_crd_152() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let sent = lamp("a", json!({"colour": "red", "odd": 1, "free": {"x": 1}}));
        let strict = format!("{LAMPS}?fieldValidation=Strict");
        let refused = client.call(Call::post(&strict, &sent)).await.expect(400);
        let message = refused["message"].as_str().unwrap();
        assert!(message.ends_with("unknown field \"spec.odd\""), "{message}");
        let made = client.call(Call::post(LAMPS, &sent)).await;
        assert_eq!(
            made.header("warning"),
            Some("299 - \"unknown field \\\"spec.odd\\\"\"")
        );
        let made = made.expect(201);
        let spec = json!({"colour": "red", "watts": 5, "free": {"x": 1}});
        assert_eq!(
            (&made["spec"], &made["metadata"]["generation"]),
            (&spec, &json!(1))
        );
        let invalid = lamp("b", json!({"colour": "a colour too long", "watts": 0}));
        let refused = client.call(Call::post(LAMPS, &invalid)).await.expect(422);
        let fields: Vec<&Value> = refused["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| &cause["field"])
            .collect();
        assert_eq!(fields, ["spec.colour", "spec.watts"]);
        // A patch that changes nothing writes nothing.
        let patched = client
            .call(Call::merge_patch(&of("a"), &json!({})))
            .await
            .expect(200);
        assert_eq!(patched, made);
        let patch = json!({"spec": {"watts": 6}});
        let patched = client
            .call(Call::merge_patch(&of("a"), &patch))
            .await
            .expect(200);
        assert_eq!(patched["metadata"]["generation"], 2);
        let blind = client
            .call(Call::put(&of("a"), &lamp("a", spec)))
            .await
            .expect(422);
        assert_eq!(
            blind["details"]["causes"][0]["field"],
            "metadata.resourceVersion"
        );
        let strategic = Call::new("PATCH", &of("a"));
        let strategic = strategic.body("application/strategic-merge-patch+json", "{}");
        client.call(strategic).await.expect(415);
        for (verb, path) in [("POST", LAMPS), ("PUT", &of("a"))] {
            let body = Call::new(verb, path).body("application/vnd.kubernetes.protobuf", "k8s");
            let refused = client.call(body).await;
            refused.refusal(415, "UnsupportedMediaType");
        }
        let protobuf = Call::get(&of("a")).header("accept", "application/vnd.kubernetes.protobuf");
        assert_eq!(client.call(protobuf).await.status, 406);
    })
    .await;
}

/// CRD-185, CRD-188, CRD-189: status and scale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_scale_write_their_parts_crd_185_crd_189() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"},
                "selector": {"type": "string"}}}}});
        let mut v1 = version("v1", true, &schema);
        v1["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}});
        establish(&client, &definition("lamps", "Lamp", &json!([v1]))).await;
        let mut sent = lamp("a", json!({}));
        sent["status"] = json!({"replicas": 1});
        let made = client.call(Call::post(LAMPS, &sent)).await.expect(201);
        assert_eq!(made.get("status"), None);
        let missing = client
            .call(Call::get(&format!("{LAMPS}/a/scale")))
            .await
            .expect(500);
        let message = missing["message"].as_str().unwrap();
        assert!(
            message.contains("\".spec.replicas\" does not exist"),
            "{message}"
        );
        let both = json!({"spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}});
        let status = format!("{LAMPS}/a/status");
        let patched = client
            .call(Call::merge_patch(&status, &both))
            .await
            .expect(200);
        assert_eq!(patched["spec"], json!({}));
        assert_eq!(patched["metadata"]["generation"], 1);
        let patched = client
            .call(Call::merge_patch(&of("a"), &both))
            .await
            .expect(200);
        assert_eq!(patched["metadata"]["generation"], 2);
        let scale = client
            .call(Call::get(&format!("{LAMPS}/a/scale")))
            .await
            .expect(200);
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
        let more = json!({"spec": {"replicas": 4}});
        let path = format!("{LAMPS}/a/scale");
        let scaled = client
            .call(Call::merge_patch(&path, &more))
            .await
            .expect(200);
        assert_eq!(scaled["spec"], json!({"replicas": 4}));
        let negative = json!({"spec": {"replicas": -1}});
        let refused = client
            .call(Call::merge_patch(&path, &negative))
            .await
            .expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], ".spec.replicas");
    })
    .await;
}

/// CRD-160, CRD-162, CRD-173: rules, transition rules, and errors that an update may keep.
#[tokio::test]
async fn rules_are_checked_and_ratcheted_crd_162_crd_173() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let spec = |limit: u32| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer", "maximum": limit, "x-kubernetes-validations": [
                {"rule": format!("self <= {limit}"), "message": "too many"}]},
            "fixed": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "is immutable"}]},
            "free": {"type": "string"}}}}})
    };
    establish(
        &client,
        &definition("lamps", "Lamp", &json!([version("v1", true, &spec(9))])),
    )
    .await;
    let sent = lamp("a", json!({"n": 9, "fixed": "f"}));
    client.call(Call::post(LAMPS, &sent)).await.expect(201);
    let other = json!({"spec": {"fixed": "g"}});
    let refused = client
        .call(Call::merge_patch(&of("a"), &other))
        .await
        .expect(422);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .ends_with("is immutable")
    );
    let path = super::path_of(&lamps());
    let tighter = json!({"spec": {"versions": [version("v1", true, &spec(5))]}});
    client
        .call(Call::merge_patch(&path, &tighter))
        .await
        .expect(200);
    let free = json!({"spec": {"free": "x"}});
    let warned = super::until(
        &client,
        || Call::merge_patch(&format!("{}?dryRun=All", of("a")), &free),
        |answer| answer.header("warning").is_some(),
    );
    let warned = warned.await;
    assert!(warned.header("warning").unwrap().contains("too many"));
    warned.expect(200);
    let more = json!({"spec": {"n": 8}});
    client
        .call(Call::merge_patch(&of("a"), &more))
        .await
        .expect(422);
}

/// CRD-115, CRD-116, KV-3: keys and values are those of kube-apiserver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_stored_as_kube_apiserver_stores_them_crd_115() {
    use crate::servers::etcd::{self, Cluster};
    if etcd::find("3.5").is_none() {
        return;
    }
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    client
        .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
        .await
        .expect(201);
    let mut etcd = etcd_client::Client::connect(cluster.urls(), None)
        .await
        .unwrap();
    let key = "/registry/example.com/lamps/default/a";
    let found = etcd.get(key, None).await.unwrap();
    let value: Value = serde_json::from_slice(found.kvs()[0].value()).unwrap();
    assert_eq!(value["apiVersion"], "example.com/v1");
    assert_eq!(value["metadata"].get("resourceVersion"), None);
    // Values of another server are pruned and completed when they are read (KV-26, CRD-137).
    let other = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {
        "name": "b", "namespace": "default", "uid": "u", "labels": [1], "odd": 1},
        "spec": {"colour": "blue", "odd": 1}});
    let key = "/registry/example.com/lamps/default/b";
    etcd.put(key, other.to_string(), None).await.unwrap();
    let read = super::until(
        &client,
        || Call::get(&of("b")),
        |answer| answer.status == 200,
    )
    .await;
    let read = read.json();
    assert_eq!(read["spec"], json!({"colour": "blue", "watts": 5}));
    assert_eq!(read["metadata"].get("labels"), None);
    assert_eq!(read["metadata"]["generation"], 1);
}
