//! The unmodified kube-controller-manager and kube-scheduler work against the daemon, in JSON with
//! its own controllers off and in protobuf with them on: workloads become pods on nodes, the
//! objects that each namespace needs appear, and dependents are deleted with their owners. Where
//! both sides empty namespaces and collect garbage, neither undoes or repeats the work of the
//! other.
//!
//! TAFFRAIL_CONTROLLER_MANAGER and TAFFRAIL_SCHEDULER name the programs. Without them the tests say
//! so and pass.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, body, kubelet, pod_spec, version};
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
        is_ending && line.contains("\\\" not found\"") && line.contains(&format!("{NAMESPACE}/"))
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

/// The audit log of a daemon.
struct AuditLog {
    folder: tempfile::TempDir,
}

impl AuditLog {
    /// It has the requests in these namespaces.
    fn of(namespaces: &[&str]) -> AuditLog {
        let folder = tempfile::tempdir().unwrap();
        let rules = json!([{"level": "Metadata", "namespaces": namespaces}]);
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        std::fs::write(folder.path().join("policy"), policy.to_string()).unwrap();
        AuditLog { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How often a controller of kube-controller-manager has asked so.
    fn count(&self, controller: &str, verb: &str, namespace: &str, resource: &str) -> usize {
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        // The last line may not be complete.
        let events = log
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        let is_meant = |event: &Value| {
            let agent = event["userAgent"].as_str().unwrap_or_default();
            agent.starts_with("kube-controller-manager/")
                && agent.ends_with(controller)
                && event["verb"] == verb
                && event["stage"] == "ResponseComplete"
                && event["objectRef"]["namespace"] == namespace
                && event["objectRef"]["resource"] == resource
        };
        events.filter(is_meant).count()
    }

    /// Waits until it has asked so at least so often.
    async fn until(&self, controller: &str, [verb, namespace, resource]: [&str; 3], times: usize) {
        let begun = Instant::now();
        while self.count(controller, verb, namespace, resource) < times {
            let what = format!("{verb} of {resource} in {namespace}");
            assert!(
                begun.elapsed() < TIMEOUT,
                "no {times} times {what} by {controller}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

const NAMESPACES: [&str; 3] = ["beside", "held", "slow"];
/// Lines at error level of who comes second: what it works on has changed or is gone. The last one
/// a kube-apiserver causes, too.
const LATE: &[&str] = &[
    "removeOrphanFinalizer for [v1/ConfigMap, namespace: beside,",
    "Couldn't update status condition for namespace",
    "unexpected items still remain in namespace: slow",
];
const COLLECTOR: &str = "generic-garbage-collector";
const DELETER: &str = "namespace-controller";

fn configmaps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap of the namespace `beside`, of an owner that it blocks.
async fn dependent(
    client: &Client,
    name: &str,
    owner: Option<&Value>,
    finalizers: &[&str],
) -> Value {
    let references = owner.map(|owner| {
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}])
    });
    let object = json!({"metadata": {"name": name, "ownerReferences": references,
        "finalizers": finalizers}});
    let call = Call::post(&configmaps("beside"), &object);
    client.call(call).await.expect(201)
}

/// Waits until an object is gone.
async fn gone(client: &Client, path: &str) {
    let begun = Instant::now();
    while client.call(Call::get(path)).await.status != 404 {
        assert!(begun.elapsed() < TIMEOUT, "{path} stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn release(client: &Client, path: &str) {
    let none = json!({"metadata": {"finalizers": null}});
    client
        .call(Call::merge_patch(path, &none))
        .await
        .expect(200);
}

/// Owners wait for what blocks them, and orphans survive.
async fn owners(client: &Client, log: &AuditLog) {
    let at = |name: &str| format!("{}/{name}", configmaps("beside"));
    let delete = async |name: &str, policy: &str| {
        let path = format!("{}?propagationPolicy={policy}", at(name));
        client.call(Call::delete(&path)).await.expect(200)
    };
    let waits = dependent(client, "waits", None, &[]).await;
    dependent(client, "blocks", Some(&waits), &["example.com/a"]).await;
    dependent(client, "free", Some(&waits), &[]).await;
    delete("waits", "Foreground").await;
    gone(client, &at("free")).await;
    // The real collector has found them, too.
    log.until(COLLECTOR, ["get", "beside", "configmaps"], 1)
        .await;
    client.call(Call::get(&at("waits"))).await.expect(200);
    release(client, &at("blocks")).await;
    gone(client, &at("waits")).await;
    gone(client, &at("blocks")).await;

    for round in 0..10 {
        let owner = format!("owner-{round}");
        let object = dependent(client, &owner, None, &[]).await;
        dependent(client, &format!("orphan-{round}"), Some(&object), &[]).await;
        delete(&owner, "Orphan").await;
    }
    for round in 0..10 {
        gone(client, &at(&format!("owner-{round}"))).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for round in 0..10 {
        let orphan = at(&format!("orphan-{round}"));
        let orphan = client.call(Call::get(&orphan)).await.expect(200);
        assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null);
    }
}

/// Namespaces that hold out for several passes of both deleters, and then end.
async fn held_namespaces(client: &Client, log: &AuditLog) {
    let mut held = body("a", "1");
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    client
        .call(Call::post(&configmaps("held"), &held))
        .await
        .expect(201);
    let call = Call::post(&configmaps("slow"), &body("a", "1"));
    client.call(call).await.expect(201);
    let mut spec = pod_spec();
    spec["nodeName"] = json!("n");
    spec["terminationGracePeriodSeconds"] = json!(8);
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let pods = "/api/v1/namespaces/slow/pods";
    client.call(Call::post(pods, &pod)).await.expect(201);
    for name in ["held", "slow"] {
        let path = format!("/api/v1/namespaces/{name}");
        client.call(Call::delete(&path)).await.expect(200);
    }
    log.until(DELETER, ["deletecollection", "held", "configmaps"], 2)
        .await;
    // Beyond its grace period, too.
    log.until(DELETER, ["deletecollection", "slow", "pods"], 4)
        .await;
    let configmap = format!("{}/a", configmaps("slow"));
    client.call(Call::get(&configmap)).await.expect(200);
    release(client, &format!("{}/a", configmaps("held"))).await;
    let now = json!({"gracePeriodSeconds": 0});
    let end = Call::json("DELETE", &format!("{pods}/p"), &now);
    client.call(end).await.expect(200);
    for name in ["held", "slow"] {
        gone(client, &format!("/api/v1/namespaces/{name}")).await;
    }
}

/// All events of a resource since a version, with an object that comes or goes at most once.
async fn events(client: &Client, resource: &str, since: u64) -> Vec<Value> {
    let path = format!("/api/v1/{resource}?watch=true&resourceVersion={since}&timeoutSeconds=2");
    let events = client.watch(&path).await.rest().await;
    let mut seen = BTreeSet::new();
    for event in &events {
        let metadata = &event["object"]["metadata"];
        let is_first = match event["type"].as_str() {
            Some("ADDED") => seen.insert(format!("{} {}", metadata["namespace"], metadata["name"])),
            Some("DELETED") => seen.insert(metadata["uid"].to_string()),
            _ => true,
        };
        assert!(is_first, "{event}");
    }
    events
}

/// Each state of the conditions of a namespace that ends is written once.
fn conditions_never_come_back(events: &[Value], name: &str) {
    let mut states = Vec::new();
    for event in events {
        let (kind, object) = (&event["type"], &event["object"]);
        let metadata = &object["metadata"];
        if kind == "MODIFIED"
            && metadata["name"] == name
            && metadata.get("deletionTimestamp").is_some()
        {
            let state = object["status"]["conditions"].clone();
            assert!(
                !states.contains(&state),
                "{name}: {states:#?} and again {state:#}"
            );
            states.push(state);
        }
    }
    // At first there are none. In the end none is True.
    assert!(states.len() > 2, "{states:#?}");
    let is_true = |condition: &Value| condition["status"] == "True";
    let last = states.last().and_then(Value::as_array).unwrap();
    assert!(!last.iter().any(is_true), "{states:#?}");
}

/// API-114, API-209, API-225: what both do happens once.
#[tokio::test(flavor = "multi_thread")]
async fn our_collectors_and_the_real_ones_do_nothing_twice() {
    let Some(programs) = Programs::find() else {
        return;
    };
    let log = AuditLog::of(&NAMESPACES);
    let flag = |name: &str, path: &Path| format!("--audit-{name}={}", path.display());
    let daemon = Daemon::with(&[
        "--service-account-issuer=https://taffrail.example",
        &flag("policy-file", &log.path("policy")),
        &flag("log-path", &log.path("log")),
    ])
    .await;
    let client = daemon.client();
    let since = version(
        &client
            .call(Call::get("/api/v1/namespaces"))
            .await
            .expect(200),
    );
    let controllers = programs.start(&daemon.kubeconfig(), PROTOBUF, None);
    kubelet::node(&client, "n", 1000).await;
    for name in NAMESPACES {
        let namespace = json!({"metadata": {"name": name}});
        let call = Call::post("/api/v1/namespaces", &namespace);
        client.call(call).await.expect(201);
    }
    owners(&client, &log).await;
    held_namespaces(&client, &log).await;
    for resource in ["configmaps", "secrets", "serviceaccounts", "pods"] {
        events(&client, resource, since).await;
    }
    let namespaces = events(&client, "namespaces", since).await;
    for name in ["held", "slow"] {
        conditions_never_come_back(&namespaces, name);
    }
    let mut errors = unexpected(&controllers, false);
    errors.retain(|line| !LATE.iter().any(|known| line.contains(known)));
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(!daemon.stderr().contains("ERROR"), "{}", daemon.stderr());
}
