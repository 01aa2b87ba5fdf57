//! The part of a kubelet that tests need: it has a node, runs bound pods, and ends deleted ones.

use serde_json::{Value, json};

use super::{Call, Client};

/// A node that takes this many pods.
pub async fn node(client: &Client, name: &str, pods: u64) {
    let created = json!({ "metadata": { "name": name } });
    let created = client.call(Call::post("/api/v1/nodes", &created)).await;
    created.expect(201);
    let room = json!({ "cpu": "64", "memory": "256Gi", "pods": pods.to_string() });
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady" });
    let status = json!({ "status": {
        "capacity": room, "allocatable": room, "conditions": [ready],
    } });
    let path = format!("/api/v1/nodes/{name}");
    let patch = Call::merge_patch(&format!("{path}/status"), &status);
    client.call(patch).await.expect(200);
    // The controller of nodes would take away what admission adds, had it kubelets.
    let untainted = json!({ "spec": { "taints": null } });
    let patch = Call::merge_patch(&path, &untainted);
    client.call(patch).await.expect(200);
}

/// Bound pods of a namespace run, and those that are deleted end. Whoever was faster is right.
pub async fn run_pods(client: &Client, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let list = client.call(Call::get(&path)).await.expect(200);
    for (number, pod) in list["items"].as_array().unwrap().iter().enumerate() {
        let path = format!("{path}/{}", pod["metadata"]["name"].as_str().unwrap());
        if pod["metadata"].get("deletionTimestamp").is_some() {
            let now = json!({ "gracePeriodSeconds": 0,
                "preconditions": { "uid": pod["metadata"]["uid"] } });
            client.call(Call::json("DELETE", &path, &now)).await;
        } else if pod["spec"].get("nodeName").is_some() && pod["status"]["phase"] != "Running" {
            let runs = Call::merge_patch(&format!("{path}/status"), &running(number, pod));
            client.call(runs).await;
        }
    }
}

/// The status of a running pod. A pod of the same name that came later is not changed.
fn running(number: usize, pod: &Value) -> Value {
    let ip = format!("10.9.{}.{}", number / 250, number % 250 + 1);
    let is = |name: &str| json!({ "type": name, "status": "True" });
    json!({
        "metadata": { "uid": pod["metadata"]["uid"] },
        "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [is("Initialized"), is("ContainersReady"), is("Ready")] },
    })
}
