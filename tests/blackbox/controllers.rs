//! The unmodified kube-controller-manager and kube-scheduler work against the daemon, in JSON with
//! its own controllers off and in protobuf with them on: workloads become pods on nodes, what
//! belongs to namespaces appears, and what is deleted takes along what it owns.
//!
//! TAFFRAIL_CONTROLLER_MANAGER and TAFFRAIL_SCHEDULER name the programs. Without them the tests say
//! so and pass.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, kubelet};
use crate::servers::controllers::{Controllers, Programs};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const NAMESPACE: &str = "controlled";
/// A CronJob starts a job in the next minute.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Lines at error level that a kube-apiserver causes, too: informers are behind the writes of their
/// own controllers, nobody serves metrics of pods, and what an autoscaler scales is deleted.
const EXPECTED: &[&str] = &[
    "is not as new as written version",
    "the object has been modified; please apply your changes to the latest version",
    "failed to compute desired number of replicas based on listed metrics",
    "failed to query scale subresource for Deployment/controlled/web",
    "because it is being terminated",
    "The manifest file is empty, ignoring.",
    "finished without leader elect",
];

/// Lines at error level that a kube-apiserver would not cause. While the namespace ends, a
/// controller may write to an object that is gone already.
fn unexpected(controllers: &Controllers, is_ending: bool) -> Vec<String> {
    let is_late = |line: &str| {
        is_ending && line.contains("\\\" not found\"") && line.contains(&format!("=\"{NAMESPACE}/"))
    };
    let is_expected = |line: &str| EXPECTED.iter().any(|known| line.contains(known));
    let mut lines = controllers.error_lines();
    lines.retain(|line| !is_expected(line) && !is_late(line));
    lines
}

/// A path of the namespace: a group with its version, empty for the core, and the rest.
fn path(group: &str, rest: &str) -> String {
    match group {
        "" => format!("/api/v1/namespaces/{NAMESPACE}/{rest}"),
        group => format!("/apis/{group}/namespaces/{NAMESPACE}/{rest}"),
    }
}

fn template(app: &str, restart: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"restartPolicy": restart,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}})
}

fn workload(name: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}},
        "template": template(name, "Always")});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Waits, while pods run, until an object is there and as it has to be.
async fn shows(client: &Client, path: &str, what: &str, is: impl Fn(&Value) -> bool) {
    let begun = Instant::now();
    loop {
        kubelet::run_pods(client, NAMESPACE).await;
        let answer = client.call(Call::get(path)).await;
        let found = answer.json();
        if answer.status == 200 && is(&found) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{what} does not come: {found}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn workloads(client: &Client) {
    let selector = json!({"matchLabels": {"app": "web"}});
    let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let job = json!({"template": template("once", "Never")});
    let often = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {
        "template": template("often", "Never")}}});
    let named = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let objects = [
        (
            "",
            "resourcequotas",
            named("quota", json!({"hard": {"count/configmaps": "10"}})),
        ),
        (
            "apps/v1",
            "deployments",
            workload("web", json!({"replicas": 2})),
        ),
        (
            "apps/v1",
            "statefulsets",
            workload("db", json!({"serviceName": "db"})),
        ),
        ("apps/v1", "daemonsets", workload("agent", json!({}))),
        ("batch/v1", "jobs", named("once", job)),
        ("batch/v1", "cronjobs", named("often", often)),
        (
            "",
            "services",
            named(
                "web",
                json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}),
            ),
        ),
        (
            "autoscaling/v2",
            "horizontalpodautoscalers",
            named(
                "web",
                json!({"scaleTargetRef": reference, "maxReplicas": 4}),
            ),
        ),
        (
            "policy/v1",
            "poddisruptionbudgets",
            named("web", json!({"minAvailable": 1, "selector": selector})),
        ),
    ];
    for (group, plural, object) in objects {
        client
            .call(Call::post(&path(group, plural), &object))
            .await
            .expect(201);
    }
}

/// Pods of all workloads are bound to the node.
async fn pods_are_bound(client: &Client) {
    let of_all = |list: &Value| {
        let pods = list["items"].as_array().unwrap();
        let bound = |app: &str| {
            pods.iter()
                .filter(|pod| pod["metadata"]["labels"]["app"] == app)
                .filter(|pod| pod["spec"]["nodeName"] == "n")
                .count()
        };
        let counts = ["web", "db", "agent", "once", "often"].map(bound);
        counts[0] == 2 && counts[1..].iter().all(|count| *count >= 1)
    };
    shows(
        client,
        &path("", "pods"),
        "a bound pod of each workload",
        of_all,
    )
    .await;
}

async fn statuses_are_written(client: &Client) {
    let slices = path("discovery.k8s.io/v1", "endpointslices");
    shows(client, &slices, "an endpoint of each pod", |list| {
        let slices = list["items"].as_array().unwrap();
        let endpoints = slices
            .iter()
            .filter_map(|slice| slice["endpoints"].as_array());
        endpoints.map(Vec::len).sum::<usize>() == 2
    })
    .await;
    let budget = path("policy/v1", "poddisruptionbudgets/web");
    shows(client, &budget, "a status of the budget", |budget| {
        budget["status"]["currentHealthy"] == 2 && budget["status"]["disruptionsAllowed"] == 1
    })
    .await;
    let autoscaler = path("autoscaling/v2", "horizontalpodautoscalers/web");
    shows(
        client,
        &autoscaler,
        "a status of the autoscaler",
        |autoscaler| {
            let conditions = autoscaler["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "AbleToScale"))
        },
    )
    .await;
    let quota = path("", "resourcequotas/quota");
    // The map of the root certificates is there.
    shows(client, &quota, "a counted quota", |quota| {
        let used = quota["status"]["used"]["count/configmaps"].as_str();
        used.is_some_and(|used| used != "0")
    })
    .await;
    let deployment = path("apps/v1", "deployments/web");
    shows(
        client,
        &deployment,
        "an available deployment",
        |deployment| deployment["status"]["availableReplicas"] == 2,
    )
    .await;
}

async fn run(media_type: &str, arguments: &[&str]) {
    let Some(programs) = Programs::find() else {
        return;
    };
    // With an issuer tokens are known, and what the controllers want to know of them.
    let issuer = "--service-account-issuer=https://taffrail.example";
    let daemon = Daemon::with(&[&[issuer], arguments].concat()).await;
    let client = daemon.client();
    let controllers = programs.start(&daemon.kubeconfig(), media_type, None);
    kubelet::node(&client, "n", 1000).await;
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await
        .expect(201);
    let exists = |_: &Value| true;
    shows(
        &client,
        &path("", "serviceaccounts/default"),
        "an account",
        exists,
    )
    .await;
    shows(
        &client,
        &path("", "configmaps/kube-root-ca.crt"),
        "a root certificate",
        exists,
    )
    .await;
    workloads(&client).await;
    pods_are_bound(&client).await;
    statuses_are_written(&client).await;

    let deployment = Call::delete(&path("apps/v1", "deployments/web"));
    client.call(deployment).await.expect(200);
    let none = |list: &Value| list["items"].as_array().unwrap().is_empty();
    shows(
        &client,
        &path("apps/v1", "replicasets"),
        "the end of what was owned",
        none,
    )
    .await;
    let errors = unexpected(&controllers, false);
    assert!(errors.is_empty(), "{errors:#?}");
    client
        .call(Call::delete(&format!("/api/v1/namespaces/{NAMESPACE}")))
        .await
        .expect(200);
    let ended = |list: &Value| {
        let namespaces = list["items"].as_array().unwrap();
        namespaces
            .iter()
            .all(|namespace| namespace["metadata"]["name"] != NAMESPACE)
    };
    shows(
        &client,
        "/api/v1/namespaces",
        "the end of the namespace",
        ended,
    )
    .await;
    let errors = unexpected(&controllers, true);
    assert!(errors.is_empty(), "{errors:#?}");
}

/// API-323.
#[tokio::test(flavor = "multi_thread")]
async fn the_real_controllers_run_in_json() {
    run(
        "application/json",
        &["--controllers=-namespace,-garbage-collector"],
    )
    .await;
}

/// API-323.
#[tokio::test(flavor = "multi_thread")]
async fn the_real_controllers_run_in_protobuf_beside_our_own() {
    run(PROTOBUF, &[]).await;
}
