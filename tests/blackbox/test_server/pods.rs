//! `--nodes` and `--pods-run`.

use serde_json::{Value, json};

use super::Server;
use crate::harness::{Call, pod_spec};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, more: &Value) -> Value {
    let mut spec = pod_spec();
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn condition<'o>(object: &'o Value, kind: &str) -> &'o Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|one| one["type"] == kind);
    found.map_or(&Value::Null, |found| &found["status"])
}

#[tokio::test]
async fn nodes_are_ready_when_the_server_is() {
    let server = Server::start(&["--nodes=3"]);
    let client = server.client();
    let nodes = client.call(Call::get("/api/v1/nodes")).await.expect(200);
    let nodes = nodes["items"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!(condition(node, "Ready"), "True");
        assert_eq!(node["spec"].get("taints"), None);
        assert!(node["status"]["allocatable"]["cpu"].is_string());
    }
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
    let lease = server
        .until(path, |lease| lease["spec"]["renewTime"].is_string())
        .await;
    assert_eq!(lease["spec"]["holderIdentity"], "node-1");
    // A node that a test deletes stays away.
    client
        .call(Call::delete("/api/v1/nodes/node-3"))
        .await
        .expect(200);
    let nodes = client.call(Call::get("/api/v1/nodes")).await.expect(200);
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2);
    server.stop();
}

#[tokio::test]
async fn pods_of_anybody_run() {
    let server = Server::start(&["--pods-run"]);
    let client = server.client();
    let more = json!({"initContainers": [{"name": "first", "image": "i"}]});
    client
        .call(Call::post(PODS, &pod("a", &more)))
        .await
        .expect(201);
    let path = format!("{PODS}/a");
    let a = server
        .until(&path, |pod| condition(pod, "Ready") == "True")
        .await;
    assert_eq!(a["spec"]["nodeName"], "node-1");
    let status = &a["status"];
    assert_eq!(status["phase"], "Running");
    for kind in ["PodScheduled", "Initialized", "ContainersReady"] {
        assert_eq!(condition(&a, kind), "True", "{kind}");
    }
    for name in ["podIP", "hostIP", "startTime"] {
        assert!(status[name].is_string(), "{name}: {status}");
    }
    assert_eq!(status["containerStatuses"][0]["ready"], true);
    let init = &status["initContainerStatuses"][0];
    assert_eq!(init["state"]["terminated"]["exitCode"], 0);
    // A graceful deletion ends.
    client.call(Call::delete(&path)).await.expect(200);
    server.until(&path, |answer| answer["code"] == 404).await;
    server.stop();
}

/// The addresses of simulated nodes and pods may be those of other machines, so nothing is
/// connected to.
#[tokio::test]
async fn simulated_nodes_and_pods_are_not_connected_to() {
    let server = Server::start(&["--pods-run"]);
    let client = server.client();
    client
        .call(Call::post(PODS, &pod("a", &json!({}))))
        .await
        .expect(201);
    let path = format!("{PODS}/a");
    let is_ready = |pod: &Value| condition(pod, "Ready") == "True";
    server.until(&path, is_ready).await;
    for (path, why) in [
        (
            format!("{path}/log"),
            "node node-1 is simulated: its pods have no logs",
        ),
        (
            format!("{path}/exec?command=ls&stdout=true"),
            "node node-1 is simulated: no commands",
        ),
        (
            format!("{path}/attach?stdout=true"),
            "node node-1 is simulated: no commands",
        ),
        (
            format!("{path}/portforward?ports=80"),
            "node node-1 is simulated: nothing listens",
        ),
        (
            format!("{path}/proxy/"),
            "pod a is simulated: nothing listens",
        ),
        (
            "/api/v1/nodes/node-1/proxy/pods".to_owned(),
            "node node-1 is simulated: it has no",
        ),
    ] {
        let status = client.call(Call::get(&path)).await.expect(400);
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(why), "{path}: {message}");
    }
    // The kubelet of a test is connected to. Nothing listens at this port.
    let port = json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        "addresses": [{"type": "Hostname", "address": "127.0.0.1"}]}});
    client
        .call(Call::merge_patch("/api/v1/nodes/node-1/status", &port))
        .await
        .expect(200);
    let status = client
        .call(Call::get(&format!("{path}/log")))
        .await
        .expect(500);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("connection refused"), "{message}");
    server.stop();
}

#[tokio::test]
async fn pods_that_somebody_has_placed_run_and_others_wait() {
    let server = Server::start(&["--pods-run", "--nodes=2"]);
    let client = server.client();
    for (name, more) in [
        ("placed", json!({"nodeName": "node-2"})),
        ("elsewhere", json!({"nodeName": "unknown"})),
        (
            "gated",
            json!({"schedulingGates": [{"name": "example.com/g"}]}),
        ),
        ("other", json!({"schedulerName": "mine"})),
        ("picky", json!({"nodeSelector": {"none": "such"}})),
    ] {
        client
            .call(Call::post(PODS, &pod(name, &more)))
            .await
            .expect(201);
    }
    let path = |name: &str| format!("{PODS}/{name}");
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    for name in ["placed", "elsewhere"] {
        server.until(&path(name), runs).await;
    }
    let is_told = |pod: &Value| condition(pod, "PodScheduled") == "False";
    server.until(&path("picky"), is_told).await;
    for name in ["gated", "other"] {
        let pod = client.call(Call::get(&path(name))).await.expect(200);
        assert_eq!(pod["status"]["phase"], "Pending", "{name}");
        assert_eq!(pod["spec"].get("nodeName"), None);
    }
    // The gate opens.
    let open = json!({"spec": {"schedulingGates": null}});
    client
        .call(Call::merge_patch(&path("gated"), &open))
        .await
        .expect(200);
    server.until(&path("gated"), runs).await;
    server.stop();
}

#[tokio::test]
async fn pods_of_jobs_succeed() {
    let server = Server::start(&["--pods-run"]);
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": true});
    let client = server.client();
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": pod_spec()}}});
    let mut job_body = job;
    job_body["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = client.call(Call::post(jobs, &job_body)).await.expect(201);
    let mut pod = pod("j-1", &json!({}));
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"].clone();
    client.call(Call::post(PODS, &pod)).await.expect(201);
    let ended = server
        .until(&format!("{PODS}/j-1"), |pod| {
            pod["status"]["phase"] == "Succeeded"
        })
        .await;
    let state = &ended["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["exitCode"], 0);
    assert_eq!(condition(&ended, "Ready"), "False");
    server.stop();
}
