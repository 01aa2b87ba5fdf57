//! A real kube-apiserver and the daemon on one etcd (KV-20, KV-21, KV-23, SF-6): each reads the
//! values that the other stores, and the daemon serves as a watch replica of the kube-apiserver.
//!
//! TAFFRAIL_KUBE_APISERVER names the program. Without it the test says so and passes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Target, deployment};
use crate::servers::etcd::Cluster;
use crate::servers::kube_apiserver::{KubeApiserver, TOKEN};
use crate::servers::programs::named;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A kube-apiserver that serves, and a client of it.
async fn start(program: &Path, cluster: &Cluster) -> (KubeApiserver, Client) {
    let mut server = KubeApiserver::spawn(program, cluster);
    let client = Target::new(server.address(), Some(TOKEN.to_owned()), None).client();
    let asked = async || client.attempt(Call::get("/readyz")).await;
    server
        .until(async || asked().await.is_ok_and(|answer| answer.status == 200))
        .await;
    (server, client)
}

fn configmap(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
        "data": {"text": name}, "binaryData": {"b": "AAE="}})
}

/// Both show the same of an object.
async fn agree(one: &Client, other: &Client, path: &str) -> Value {
    let begun = Instant::now();
    loop {
        let shown = one.call(Call::get(path)).await.expect(200);
        let also = other.call(Call::get(path)).await.expect(200);
        if shown == also {
            return shown;
        }
        // Caches may be a moment behind the store.
        assert!(begun.elapsed() < Duration::from_secs(10), "{shown}\n{also}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// SF-43: definitions of custom resources are stored in a version that is not served. Each changes
/// one that the other made.
async fn definition_is_shared(ours: &Client, theirs: &Client, short: &str) {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (server, other, plural) in [(ours, theirs, "knots"), (theirs, ours, "ropes")] {
        let group = format!("{short}.example.com");
        let name = format!("{plural}.{group}");
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let column =
            json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        let definition = json!({"metadata": {"name": name}, "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": if plural == "knots" { "Knot" } else { "Rope" }},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                "additionalPrinterColumns": [column]}],
        }});
        let created = server.call(Call::post(DEFINITIONS, &definition)).await;
        created.expect(201);
        let path = format!("{DEFINITIONS}/{name}");
        // A cache may not have it yet, and a controller sets its status.
        agree(server, other, &path).await;
        let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
        other
            .call(Call::merge_patch(&path, &patch))
            .await
            .expect(200);
        let shown = agree(server, other, &path).await;
        assert_eq!(shown["metadata"]["labels"]["seen"], "yes");
        let columns = &shown["spec"]["versions"][0]["additionalPrinterColumns"];
        assert_eq!(columns[0]["jsonPath"], ".metadata.creationTimestamp");
    }
}

/// API-103: an update leaves what a feature that is off here has in the stored object.
async fn feature_of_one_is_kept(ours: &Client, theirs: &Client, short: &str) {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let signals = |name: &str| {
        let mut deployment = deployment(name);
        let spec = &mut deployment["spec"]["template"]["spec"];
        spec["os"] = json!({"name": "linux"});
        spec["containers"][0]["lifecycle"] = json!({"stopSignal": "SIGUSR1"});
        deployment
    };
    let lifecycle = |shown: &Value| {
        let pod = &shown["spec"]["template"]["spec"];
        pod["containers"][0]["lifecycle"].clone()
    };
    let name = format!("signals-{short}");
    let path = format!("{DEPLOYMENTS}/{name}");
    let created = theirs.call(Call::post(DEPLOYMENTS, &signals(&name))).await;
    created.expect(201);
    agree(ours, theirs, &path).await;
    let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
    let patched = ours.call(Call::merge_patch(&path, &patch)).await;
    let patched = patched.expect(200);
    assert_eq!(patched["metadata"]["labels"]["seen"], "yes");
    assert_eq!(lifecycle(&patched), json!({"stopSignal": "SIGUSR1"}));
    let new = signals(&format!("dropped-{short}"));
    let created = ours.call(Call::post(DEPLOYMENTS, &new)).await;
    assert_eq!(lifecycle(&created.expect(201)), Value::Null);
}

#[tokio::test]
async fn both_read_what_the_other_stores_kv_20_kv_23_sf_6() {
    let Some(program) = named("TAFFRAIL_KUBE_APISERVER") else {
        return;
    };
    let cluster = Cluster::single("3.5");
    let (_kube_apiserver, theirs) = start(&program, &cluster).await;
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    for media_type in [PROTOBUF, "application/json"] {
        let storage = format!("--storage-media-type={media_type}");
        let daemon = Daemon::with(&[&servers, &storage]).await;
        let ours = daemon.client();
        // The replica sees what happens beside it.
        let mut watch = ours.watch(&format!("{CONFIGMAPS}?watch=true")).await;
        let short = media_type.rsplit(['.', '/']).next().unwrap();
        let (first, second) = (format!("theirs-{short}"), format!("ours-{short}"));
        let creating = theirs.call(Call::post(CONFIGMAPS, &configmap(&first)));
        let created = creating.await;
        created.expect(201);
        let created = ours.call(Call::post(CONFIGMAPS, &configmap(&second))).await;
        created.expect(201);
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let event = watch.event().await;
            let name = event["object"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            if name == first || name == second {
                seen.push(name);
            }
        }
        assert_eq!(seen, [first.clone(), second.clone()]);
        for name in [&first, &second] {
            let path = format!("{CONFIGMAPS}/{name}");
            let shown = agree(&ours, &theirs, &path).await;
            assert_eq!(shown["data"]["text"], name.as_str());
            // Each changes what the other wrote.
            let patch = json!({"data": {"more": "yes"}});
            let patch = Call::merge_patch(&path, &patch);
            let server = if *name == first { &ours } else { &theirs };
            server.call(patch).await.expect(200);
            let shown = agree(&ours, &theirs, &path).await;
            assert_eq!(shown["data"]["more"], "yes");
        }
        definition_is_shared(&ours, &theirs, short).await;
        feature_of_one_is_kept(&ours, &theirs, short).await;
        // What kube-apiserver made for itself: roles, priority levels, Services and more.
        for path in [
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/api/v1/namespaces",
        ] {
            let shown = ours.call(Call::get(path)).await.expect(200);
            let also = theirs.call(Call::get(path)).await.expect(200);
            assert!(!shown["items"].as_array().unwrap().is_empty(), "{path}");
            assert_eq!(shown["items"], also["items"], "{path}");
        }
    }
}
