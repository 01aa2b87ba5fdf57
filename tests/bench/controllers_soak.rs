//! Runs the unmodified kube-controller-manager and kube-scheduler under random creates, changes and
//! deletes for an hour. At the end all workloads match their specs, and watches have delivered the
//! state that lists show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, kubelet, version};
use crate::meter::cpu;
use crate::random::Random;
use crate::report::{figure, part};
use crate::servers::controllers::{Programs, kinds_of_errors};

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const NAMESPACES: u64 = 4;
const NAMES: u64 = 8;
/// The time between two changes.
const PACE: Duration = Duration::from_millis(300);
/// How long nothing must change until the controllers count as idle.
const REST: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(600);

/// The resources that the programs watch most.
const WATCHED: [&str; 9] = [
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/batch/v1/jobs",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/pods",
    "/api/v1/services",
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
];

/// Objects by namespace and name, each with its version.
type Versions = BTreeMap<String, u64>;

/// The state that a watch has delivered.
#[derive(Clone, Default)]
struct Delivered(Arc<Mutex<Versions>>);

fn name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{}/{}",
        metadata["namespace"].as_str().unwrap_or(""),
        metadata["name"]
    )
}

fn versions(list: &Value) -> Versions {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (name_of(item), version(item))).collect()
}

/// Lists once and watches from there on, without ever listing again.
async fn follow(client: Client, path: &'static str, delivered: Delivered) {
    let list = client.call(Call::get(path)).await.expect(200);
    *delivered.0.lock() = versions(&list);
    let mut from = version(&list);
    loop {
        let watch = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let mut lines = client.watch(&watch).await;
        while let Some(event) = lines.event_within(TIMEOUT).await {
            let object = &event["object"];
            from = version(object);
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => delivered.0.lock().insert(name_of(object), from),
                Some("DELETED") => delivered.0.lock().remove(&name_of(object)),
                Some("BOOKMARK") => None,
                _ => panic!("{path}: {event}"),
            };
        }
    }
}

fn namespace(number: u64) -> String {
    format!("soak-{number}")
}

fn template(app: &str, restart: &str) -> Value {
    json!({ "metadata": { "labels": { "app": app } }, "spec": { "restartPolicy": restart,
        "containers": [{ "name": "c", "image": "i" }] } })
}

/// Makes one random change. A refusal because an object does not exist is ignored.
async fn change(client: &Client, random: &mut Random) {
    let namespace = namespace(random.below(NAMESPACES));
    let name = format!("w{}", random.below(NAMES));
    let (apps, core) = (
        format!("/apis/apps/v1/namespaces/{namespace}"),
        format!("/api/v1/namespaces/{namespace}"),
    );
    let workload = |restart: &str| {
        json!({ "metadata": { "name": name }, "spec": {
            "serviceName": name,
            "selector": { "matchLabels": { "app": name } },
            "template": template(&name, restart),
        } })
    };
    let policy = random.of(&["Background", "Foreground", "Orphan"]);
    let call = match random.below(16) {
        0..3 => {
            let mut deployment = workload("Always");
            deployment["spec"]
                .as_object_mut()
                .unwrap()
                .remove("serviceName");
            Call::post(&format!("{apps}/deployments"), &deployment)
        }
        3 => Call::post(&format!("{apps}/statefulsets"), &workload("Always")),
        4 => {
            let job = json!({ "metadata": { "name": name },
                "spec": { "template": template("job", "Never") } });
            Call::post(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &job)
        }
        5 => {
            let service = json!({ "metadata": { "name": name },
                "spec": { "selector": { "app": name }, "ports": [{ "port": 80 }] } });
            Call::post(&format!("{core}/services"), &service)
        }
        6..10 => {
            let scaled = json!({ "spec": { "replicas": random.below(5) } });
            Call::merge_patch(&format!("{apps}/deployments/{name}/scale"), &scaled)
        }
        10 => {
            let image = format!("i:{}", random.below(1_000));
            let changed = json!({ "spec": { "template": { "spec": {
                "containers": [{ "name": "c", "image": image }] } } } });
            Call::merge_patch(&format!("{apps}/deployments/{name}"), &changed)
        }
        11 => Call::delete(&format!(
            "{apps}/deployments/{name}?propagationPolicy={policy}"
        )),
        12 => Call::delete(&format!(
            "{apps}/statefulsets/{name}?propagationPolicy={policy}"
        )),
        13 => Call::delete(&format!("{core}/services/{name}")),
        14 => Call::delete(&format!(
            "{core}/pods?labelSelector=app={name}&propagationPolicy={policy}"
        )),
        _ if random.below(20) == 0 => Call::delete(&core),
        _ => Call::delete(&format!(
            "/apis/batch/v1/namespaces/{namespace}/jobs/{name}?propagationPolicy=Background"
        )),
    };
    client.call(call).await;
    let again = json!({ "metadata": { "name": namespace } });
    client.call(Call::post("/api/v1/namespaces", &again)).await;
}

/// Waits until the controllers are idle, while pods run.
async fn come_to_rest(client: &Client, followed: &[(&'static str, Delivered)]) {
    let state = || {
        let all = followed
            .iter()
            .map(|(_, delivered)| delivered.0.lock().clone());
        all.collect::<Vec<_>>()
    };
    let begun = Instant::now();
    let (mut last, mut since) = (state(), Instant::now());
    while since.elapsed() < REST {
        assert!(
            begun.elapsed() < TIMEOUT,
            "the controllers do not become idle"
        );
        for number in 0..NAMESPACES {
            kubelet::run_pods(client, &namespace(number)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = state();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Returns the deployments whose status does not match their spec.
async fn unfinished(client: &Client) -> Vec<String> {
    let list = client
        .call(Call::get("/apis/apps/v1/deployments"))
        .await
        .expect(200);
    let is_unfinished = |deployment: &&Value| {
        let (spec, status) = (&deployment["spec"], &deployment["status"]);
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        count(&spec["replicas"]) != count(&status["availableReplicas"])
            || deployment["metadata"]["generation"] != status["observedGeneration"]
    };
    let deployments = list["items"].as_array().unwrap().iter();
    deployments.filter(is_unfinished).map(name_of).collect()
}

pub async fn measure() {
    let minutes = std::env::var("BENCH_MINUTES").ok();
    let minutes: f64 = minutes.and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let seed = std::env::var("TAFFRAIL_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(20);
    part(&format!(
        "the real controllers under random changes for {minutes} minutes (TAFFRAIL_SEED={seed})"
    ));
    let programs = Programs::find().expect("the programs");
    let daemon = Daemon::with(&["--controllers=-namespace,-garbage-collector"]).await;
    let controllers = programs.start(&daemon.kubeconfig(), MEDIA_TYPE, None);
    let client = daemon.client();
    kubelet::node(&client, "n", 1_000).await;
    for number in 0..NAMESPACES {
        let created = json!({ "metadata": { "name": namespace(number) } });
        client
            .call(Call::post("/api/v1/namespaces", &created))
            .await
            .expect(201);
    }
    let mut followed = Vec::new();
    for path in WATCHED {
        let delivered = Delivered::default();
        tokio::spawn(follow(daemon.client(), path, delivered.clone()));
        followed.push((path, delivered));
    }
    let mut random = Random::new(seed);
    let (start, before) = (Instant::now(), cpu(daemon.pid()));
    let mut changes = 0_u64;
    let mut seen = 0.0;
    while start.elapsed() < Duration::from_secs_f64(60.0 * minutes) {
        change(&client, &mut random).await;
        changes += 1;
        if changes.is_multiple_of(4) {
            kubelet::run_pods(&client, &namespace(random.below(NAMESPACES))).await;
        }
        let part = start.elapsed().as_secs_f64() / 60.0 / minutes;
        if part > seen + 0.2 {
            seen += 0.2;
            let objects: usize = followed
                .iter()
                .map(|(_, delivered)| delivered.0.lock().len())
                .sum();
            figure(
                &format!("memory after {seen:.1} of the time, {objects} objects"),
                daemon.resident(),
                "MiB",
                "",
            );
        }
        tokio::time::sleep(PACE).await;
    }
    come_to_rest(&client, &followed).await;
    let used = cpu(daemon.pid()) - before;
    let mut differing = 0;
    for (path, delivered) in &followed {
        let listed = versions(&client.call(Call::get(path)).await.expect(200));
        let delivered = delivered.0.lock().clone();
        if delivered != listed {
            differing += 1;
            println!("  {path}: watched {delivered:?}, listed {listed:?}");
        }
    }
    let unfinished = unfinished(&client).await;
    figure("changes", changes as f64, "", "");
    figure(
        "watches that differ from lists",
        f64::from(differing),
        "",
        "0",
    );
    figure("unfinished deployments", unfinished.len() as f64, "", "0");
    figure("memory at the end", daemon.resident(), "MiB", "");
    let cores = used / start.elapsed().as_secs_f64();
    figure("cores of the daemon", cores, "", "");
    let lines = controllers.error_lines();
    figure("lines at error level", lines.len() as f64, "", "");
    kinds_of_errors(&lines)
        .iter()
        .for_each(|line| println!("    {line}"));
    assert!(differing == 0 && unfinished.is_empty(), "{unfinished:?}");
}
