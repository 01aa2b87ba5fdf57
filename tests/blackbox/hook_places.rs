//! Where webhooks are: Services by their addresses and their endpoints, and webhooks of conversion
//! with their metrics (HK-43, HK-82, HK-83).

use serde_json::{Value, json};

use crate::custom_resources::establish;
use crate::harness::hook_server::HookServer;
use crate::harness::{Call, Client, Daemon};
use crate::servers::etcd::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PORTS: &str = "/apis/places.example.com/v1/namespaces/default/ports";
const PORTS_V2: &str = "/apis/places.example.com/v2/namespaces/default/ports";

/// Installs a webhook of ConfigMaps behind the Service `default/hook`.
async fn install(client: &Client, hooks: &HookServer, port: u16) {
    let body = json!({"metadata": {"name": "placed"}, "webhooks": [{
        "name": "placed.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": hooks.ca_bundle, "service": {
            "namespace": "default", "name": "hook", "path": "/admit/placed", "port": port}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"]}],
    }]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    client.call(Call::post(path, &body)).await.expect(201);
}

async fn create(client: &Client, name: &str) -> (u16, Value) {
    let answer = client.call(Call::post(MAPS, &json!({"metadata": {"name": name}})));
    let answer = answer.await;
    (answer.status.as_u16(), answer.json())
}

/// Creates a ConfigMap until the webhook is refused with this text: over etcd the daemon learns of
/// Services and EndpointSlices by watches of its own, a moment after their writers do.
async fn refused(client: &Client, end: &str) {
    let mut attempts = 0;
    loop {
        let (code, status) = create(client, &format!("refused-{attempts}")).await;
        let text = status["message"].as_str().unwrap_or_default();
        if code == 500 && text.ends_with(end) {
            return;
        }
        attempts += 1;
        assert!(attempts < 2000, "{status}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Services with addresses of the loopback network are reached without a proxy of Services.
#[tokio::test]
async fn services_are_reached_by_their_cluster_addresses_hk_43() {
    let hooks = HookServer::start().await;
    let port = hooks.also_at("127.7.0.10").await;
    let daemon = Daemon::with(&["--service-cluster-ip-range=127.7.0.0/24"]).await;
    let client = daemon.client();
    let body = json!({"metadata": {"name": "hook"}, "spec": {"clusterIP": "127.7.0.10",
        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": port, "targetPort": 9}]}});
    client.call(Call::post(SERVICES, &body)).await.expect(201);
    install(&client, &hooks, port).await;
    let (code, status) = create(&client, "a").await;
    assert_eq!(code, 201, "{status}");
    assert_eq!(hooks.reviews("placed").len(), 1);
    // Where nobody listens, the text has the name of the Service and its address.
    let nobody = json!({"spec": {"ports": [{"port": port, "name": "b"}]}});
    let at = format!("{SERVICES}/hook");
    client
        .call(Call::merge_patch(&at, &nobody))
        .await
        .expect(200);
    client.call(Call::delete(&at)).await.expect(200);
    let (code, status) = create(&client, "b").await;
    assert_eq!(code, 500, "{status}");
    let text = status["message"].as_str().unwrap();
    assert!(
        text.ends_with("?timeout=10s\": service \"hook\" not found"),
        "{text}"
    );
    let headless = json!({"metadata": {"name": "hook"}, "spec": {"clusterIP": "None",
        "ports": [{"port": port}]}});
    client
        .call(Call::post(SERVICES, &headless))
        .await
        .expect(201);
    let (_, status) = create(&client, "b").await;
    let text = status["message"].as_str().unwrap();
    assert!(
        text.ends_with(": cannot route to service with ClusterIP \"None\""),
        "{text}"
    );
}

/// An EndpointSlice, which no client can write: Kubernetes refuses loopback addresses.
async fn plant(cluster: &Cluster, name: &str, endpoints: Value, port: u16) {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default",
            "uid": "0b0b0b0b-0000-4000-8000-000000000002",
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "other", "port": 1}, {"name": "web", "port": port}],
    });
    let mut etcd = etcd_client::Client::connect(cluster.urls(), None)
        .await
        .unwrap();
    let key = format!("/registry/endpointslices/default/{name}");
    etcd.put(key, slice.to_string(), None).await.unwrap();
}

#[tokio::test]
async fn services_are_reached_by_their_ready_endpoints_hk_43() {
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let hooks = HookServer::start().await;
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers, "--enable-aggregator-routing"]).await;
    let client = daemon.client();
    let body = json!({"metadata": {"name": "hook"}, "spec": {
        "ports": [{"name": "web", "port": 443, "targetPort": 8443}]}});
    client.call(Call::post(SERVICES, &body)).await.expect(201);
    install(&client, &hooks, 443).await;
    let unready = json!([{"addresses": ["127.0.0.9"], "conditions": {"ready": false}}]);
    plant(&cluster, "hook-1", unready, hooks.port).await;
    let none = "Post \"https://hook.default.svc:443/admit/placed?timeout=10s\": no endpoints \
                available for service \"hook\"";
    refused(&client, none).await;
    // Of one slice only the ready endpoint is used, whose port has the name of the Service's.
    let ready = json!([{"addresses": ["127.0.0.9"], "conditions": {"ready": false}},
        {"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]);
    plant(&cluster, "hook-2", ready, hooks.port).await;
    let mut attempts = 0;
    while create(&client, "a").await.0 != 201 {
        attempts += 1;
        assert!(attempts < 2000, "the slice is not used");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for number in 0..5 {
        let (code, status) = create(&client, &format!("b{number}")).await;
        assert_eq!(code, 201, "{status}");
    }
    assert_eq!(hooks.reviews("placed").len(), 6);
    // The Service must exist, too, and have the port.
    let other = json!({"spec": {"ports": [{"name": "web", "port": 8443}]}});
    let at = format!("{SERVICES}/hook");
    client
        .call(Call::merge_patch(&at, &other))
        .await
        .expect(200);
    refused(&client, "no service port 443 found for service \"hook\"").await;
}

/// A definition whose version v2 a webhook converts.
fn definition(hooks: &HookServer) -> Value {
    let version = |name: &str, is_stored: bool| {
        json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let client = json!({"url": format!("{}/convert/ports", hooks.url()),
        "caBundle": hooks.ca_bundle});
    json!({"metadata": {"name": "ports.places.example.com"}, "spec": {
        "group": "places.example.com", "scope": "Namespaced",
        "names": {"plural": "ports", "kind": "Port"},
        "versions": [version("v1", true), version("v2", false)],
        "conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": client}}}})
}

/// The value of a sample with these labels.
fn sample(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |line: &str| {
        let mut labels = labels.iter();
        labels.all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
    };
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with(&format!("{name}{{")) && has(line));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn conversions_are_measured_hk_83() {
    let (daemon, hooks) = (Daemon::start().await, HookServer::start().await);
    let client = daemon.client();
    establish(&client, &definition(&hooks)).await;
    let body = json!({"apiVersion": "places.example.com/v1", "kind": "Port",
        "metadata": {"name": "a"}, "spec": {"hostPort": "h:80"}});
    client.call(Call::post(PORTS, &body)).await.expect(201);
    let at = format!("{PORTS_V2}/a");
    client.call(Call::get(&at)).await.expect(200);
    for (answer, failure) in [
        (json!({}), ""),
        (json!({"http": 503}), "conversion_webhook_call_failure"),
        (
            json!({"body": "no JSON"}),
            "conversion_webhook_call_failure",
        ),
        (
            json!({"body": "{}"}),
            "conversion_webhook_malformed_response_failure",
        ),
        (
            json!({"uid": "other"}),
            "conversion_webhook_malformed_response_failure",
        ),
        (
            json!({"result": {"status": "Failure", "message": "no"}}),
            "conversion_webhook_malformed_response_failure",
        ),
        (
            json!({"only": 0}),
            "conversion_webhook_partial_response_failure",
        ),
        (
            json!({"extra": 1}),
            "conversion_webhook_partial_response_failure",
        ),
        (
            json!({"set": {"metadata.name": "b"}}),
            "conversion_webhook_invalid_converted_object_failure",
        ),
        (
            json!({"version": "places.example.com/v3"}),
            "conversion_webhook_invalid_converted_object_failure",
        ),
    ] {
        hooks.tell("ports", answer.clone());
        let result = if failure.is_empty() {
            "success"
        } else {
            "failure"
        };
        let labels = [("result", result), ("failure_type", failure)];
        let is_ok = if failure.is_empty() { "true" } else { "false" };
        let of_definition = [
            ("crd_name", "ports.places.example.com"),
            ("from_version", "v1"),
            ("to_version", "v2"),
            ("succeeded", is_ok),
        ];
        let counts = async || {
            let page = client.call(Call::get("/metrics")).await.text();
            [
                sample(&page, "apiserver_conversion_webhook_request_total", &labels),
                sample(
                    &page,
                    "apiserver_conversion_webhook_duration_seconds_count",
                    &labels,
                ),
                sample(
                    &page,
                    "apiserver_crd_conversion_webhook_duration_seconds_count",
                    &of_definition,
                ),
            ]
        };
        let before = counts().await;
        let code = client.call(Call::get(&at)).await.status.as_u16();
        assert_eq!(code, if failure.is_empty() { 200 } else { 500 }, "{answer}");
        let after = counts().await;
        assert_eq!(after, before.map(|count| count + 1.0), "{answer}");
    }
}
