//! Clients of client-go and kubectl on group versions of another server: a second daemon, which
//! takes the first one for a front proxy, and a stand-in for metrics.

use serde_json::{Value, json};

use super::extension::{APISERVICES, Extension};
use super::until_reason;
use crate::custom_resources::client_go::Program;
use crate::custom_resources::{establish, lamps};
use crate::harness::{Call, Client, Daemon, Kubectl};

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// A daemon whose clients come through this one.
async fn behind(front: &Daemon) -> Daemon {
    let authority = front.data().join("pki/front-proxy-ca.crt");
    Daemon::with(&[
        "--requestheader-client-ca-file",
        authority.to_str().unwrap(),
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--tls-san=extension.default.svc",
    ])
    .await
}

async fn lead_to(client: &Client, group: &str, port: u16, ca_bundle: Value) {
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    client
        .call(Call::post(SERVICES, &service))
        .await
        .expect(201);
    let body = json!({
        "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1500,
            "versionPriority": 15, "caBundle": ca_bundle,
            "service": {"namespace": "default", "name": "extension", "port": port}},
    });
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_reason(client, &format!("v1.{group}"), "Passed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_and_verbs_of_client_go_pass_through_cn_28_cn_32() {
    let front = Daemon::start().await;
    let back = behind(&front).await;
    let mut definition = lamps();
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.watts", "statusReplicasPath": ".status.watts"}});
    establish(&back.client(), &definition).await;
    let config = std::fs::read_to_string(back.kubeconfig()).unwrap();
    let config: Value = serde_saphyr::from_str(&config).unwrap();
    let bundle = config["clusters"][0]["cluster"]["certificate-authority-data"].clone();
    lead_to(&front.client(), "example.com", back.port(), bundle).await;
    for mode in ["true", "false"] {
        let mut program = Program::start(&front, mode);
        program
            .does("mapping", "mapping example.com/v1 lamps namespace")
            .await;
        program.does("start v1", "synced v1").await;
        program.does("verbs v1", "verbs v1").await;
        program.does("equal v1", "equal v1 0").await;
    }
    // Nothing of it is stored in front.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let none = front
        .client()
        .call(Call::get(definitions))
        .await
        .expect(200);
    assert_eq!(none["items"], json!([]));
}

/// A stand-in for metrics-server, with the metrics of a node and of a pod.
async fn with_metrics() -> (Daemon, Extension) {
    let daemon = Daemon::start().await;
    let (client, extension) = (daemon.client(), Extension::start("metrics.k8s.io").await);
    extension.tell(|told| {
        told.groups = [("metrics.k8s.io".to_owned(), vec!["v1beta1".to_owned()])].into();
        let resources = [("nodes", "NodeMetrics"), ("pods", "PodMetrics")];
        told.resources = resources
            .map(|(one, kind)| (one.to_owned(), kind.to_owned()))
            .into();
    });
    extension.add_service(&client).await;
    let body = extension.api_service("metrics.k8s.io", "v1beta1");
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_reason(&client, "v1beta1.metrics.k8s.io", "Passed").await;
    let node = json!({"metadata": {"name": "n-1"}, "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}});
    client
        .call(Call::post("/api/v1/nodes", &node))
        .await
        .expect(201);
    let pod = json!({"metadata": {"name": "p-1"}, "spec": {"containers": [
        {"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    client.call(Call::post(pods, &pod)).await.expect(201);
    let usage = json!({"cpu": "500m", "memory": "1Gi"});
    let (timestamp, window) = ("2026-01-01T00:00:00Z", "30s");
    let of_node = json!({"metadata": {"name": "n-1"}, "timestamp": timestamp, "window": window,
        "usage": usage});
    let of_pod = json!({"metadata": {"name": "p-1"}, "timestamp": timestamp, "window": window,
        "containers": [{"name": "c", "usage": usage}]});
    let group = "/apis/metrics.k8s.io/v1beta1";
    for (path, body) in [
        (format!("{group}/nodes"), of_node),
        (format!("{group}/namespaces/default/pods"), of_pod),
    ] {
        client.call(Call::post(&path, &body)).await.expect(201);
    }
    (daemon, extension)
}

async fn top(version: &'static str) {
    let (daemon, _extension) = with_metrics().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let nodes = kubectl.ok(&["top", "nodes"]).await;
    let line = nodes.lines().nth(1).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["n-1", "500m", "12%", "1024Mi", "12%"], "{nodes}");
    let pods = kubectl.ok(&["top", "pods"]).await;
    let line = pods.lines().nth(1).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["p-1", "500m", "1024Mi"], "{pods}");
    let listed = kubectl
        .ok(&["get", "apiservices", "v1beta1.metrics.k8s.io"])
        .await;
    assert!(
        listed.contains("default/extension") && listed.contains("True"),
        "{listed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_1_20_shows_metrics_of_an_extension_cn_13() {
    top("1.20").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_1_32_shows_metrics_of_an_extension_cn_13() {
    top("1.32").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_1_36_shows_metrics_of_an_extension_cn_13() {
    top("1.36").await;
}
