//! `--workloads`.

use serde_json::{Value, json};

use super::Server;
use crate::harness::{Call, Kubectl, pod_spec};

const MANIFESTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: 'i:1'}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: 'i:1'}]}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: log}}
  template: {metadata: {labels: {app: log}}, spec: {containers: [{name: c, image: 'i:1'}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  completions: 3
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'i:1'}]}}
";

const ROLLED: [&str; 3] = ["deployment/web", "statefulset/db", "daemonset/log"];
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn count(list: &Value) -> usize {
    list["items"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn kubectl_sees_rollouts_scales_and_deletions() {
    let server = Server::start(&["--workloads", "--pods-run", "--nodes=2"]);
    let Some(kubectl) = Kubectl::of("1.36", server.kubeconfig()) else {
        return;
    };
    kubectl.ok_with(&["apply", "-f", "-"], MANIFESTS).await;
    let roll = async || {
        for name in ROLLED {
            kubectl
                .ok(&["rollout", "status", name, "--timeout=50s"])
                .await;
        }
    };
    roll().await;
    kubectl
        .ok(&[
            "wait",
            "--for=condition=complete",
            "job/once",
            "--timeout=50s",
        ])
        .await;
    let path = "/apis/batch/v1/namespaces/default/jobs/once";
    let job = server.client().call(Call::get(path)).await.expect(200);
    assert_eq!(job["status"]["succeeded"], 3);
    assert!(job["status"]["completionTime"].is_string());
    for name in ROLLED {
        kubectl.ok(&["set", "image", name, "c=i:2"]).await;
    }
    roll().await;
    let images = [
        "get",
        "pods",
        "-l",
        "app!=once",
        "-o",
        "jsonpath={..spec.containers[*].image}",
    ];
    // Old pods of Deployments may still end.
    server
        .until(&format!("{PODS}?labelSelector=app%3Dweb"), |pods| {
            count(pods) == 3
        })
        .await;
    assert!(kubectl.ok(&images).await.contains("i:2"));
    kubectl.ok(&["rollout", "undo", "deployment/web"]).await;
    roll().await;
    let history = kubectl.ok(&["rollout", "history", "deployment/web"]).await;
    assert!(
        history.contains("\n2 ") && history.contains("\n3 "),
        "{history}"
    );
    for name in ["deployment/web", "statefulset/db"] {
        kubectl.ok(&["scale", name, "--replicas=1"]).await;
    }
    roll().await;
    let selected = format!("{PODS}?labelSelector=app%3Ddb");
    let db = server.until(&selected, |pods| count(pods) == 1).await;
    assert_eq!(db["items"][0]["metadata"]["name"], "db-0");
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claims = server.client().call(Call::get(claims)).await.expect(200);
    assert_eq!(count(&claims), 2);
    kubectl.ok_with(&["delete", "-f", "-"], MANIFESTS).await;
    server.until(PODS, |pods| count(pods) == 0).await;
    server.stop();
}

fn deployment(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod_spec()});
    let selector = json!({"matchLabels": {"app": name}});
    json!({"metadata": {"name": name},
        "spec": {"replicas": 2, "selector": selector, "template": template}})
}

#[tokio::test]
async fn pods_are_adopted_and_replaced() {
    let server = Server::start(&["--workloads", "--pods-run"]);
    let client = server.client();
    let mut set = deployment("r");
    set["spec"]["replicas"] = json!(1);
    let pod = json!({"metadata": {"name": "mine", "labels": {"app": "r"}}, "spec": pod_spec()});
    client.call(Call::post(PODS, &pod)).await.expect(201);
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    client.call(Call::post(sets, &set)).await.expect(201);
    let mine = format!("{PODS}/mine");
    server
        .until(&mine, |pod| {
            pod["metadata"]["ownerReferences"][0]["name"] == "r"
        })
        .await;
    server
        .until(&format!("{sets}/r"), |set| {
            set["status"]["availableReplicas"] == 1
        })
        .await;
    client.call(Call::delete(&mine)).await.expect(200);
    let is_another =
        |pods: &Value| count(pods) == 1 && pods["items"][0]["metadata"]["name"] != "mine";
    server.until(PODS, is_another).await;
    server.stop();
}

#[tokio::test]
async fn they_stand_back_while_a_controller_manager_works() {
    let server = Server::start(&["--workloads", "--pods-run"]);
    let client = server.client();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = json!({"metadata": {"name": "kube-controller-manager"}, "spec": {
        "holderIdentity": "somebody", "leaseDurationSeconds": 3600,
        "renewTime": "2026-01-01T00:00:00.000000Z"}});
    client.call(Call::post(leases, &lease)).await.expect(201);
    client
        .call(Call::post(DEPLOYMENTS, &deployment("d")))
        .await
        .expect(201);
    // Pods run anyway, which shows that the simulation has read everything before.
    let pod = json!({"metadata": {"name": "a"}, "spec": pod_spec()});
    client.call(Call::post(PODS, &pod)).await.expect(201);
    server
        .until(&format!("{PODS}/a"), |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await;
    let path = format!("{DEPLOYMENTS}/d");
    let found = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(found["status"].get("observedGeneration"), None);
    // The manager gives the lease back.
    let released = json!({"spec": {"holderIdentity": ""}});
    let path_of_lease = format!("{leases}/kube-controller-manager");
    client
        .call(Call::merge_patch(&path_of_lease, &released))
        .await
        .expect(200);
    server
        .until(&path, |one| one["status"]["availableReplicas"] == 2)
        .await;
    server.stop();
}

/// Pods that PodSecurity refuses are not refused in silence: the status has the reason, and the log
/// has it once.
#[tokio::test]
async fn the_reason_why_pods_are_not_made_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    let server = Server::start_logging(&["--workloads", "--pods-run"], log);
    let client = server.client();
    let label = |level: &str| {
        json!({"metadata": {"name": "default",
            "labels": {"pod-security.kubernetes.io/enforce": level}}})
    };
    let namespace = "/api/v1/namespaces/default";
    client
        .call(Call::merge_patch(namespace, &label("restricted")))
        .await
        .expect(200);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}}});
    client
        .call(Call::post(DEPLOYMENTS, &deployment))
        .await
        .expect(201);
    let failure = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions
            .find(|one| one["type"] == "ReplicaFailure")
            .cloned()
    };
    let path_of_one = format!("{DEPLOYMENTS}/web");
    let refused = server
        .until(&path_of_one, |one| failure(one).is_some())
        .await;
    let failure_of_one = failure(&refused).unwrap();
    assert_eq!(failure_of_one["reason"], "FailedCreate");
    let why = "violates PodSecurity \"restricted:latest\"";
    let message = failure_of_one["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
    // It goes on, and the reason is gone, once it can.
    client
        .call(Call::merge_patch(namespace, &label("privileged")))
        .await
        .expect(200);
    server
        .until(&path_of_one, |one| {
            one["status"]["availableReplicas"] == 2 && failure(one).is_none()
        })
        .await;
    server.stop();
    let said = std::fs::read_to_string(&path).unwrap();
    assert_eq!(said.matches(why).count(), 1, "{said}");
}
