//! Measures the unmodified kube-controller-manager and kube-scheduler while they turn deployments
//! into bound pods, on a kube-apiserver over etcd, and on the daemon.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Target, kubelet};
use crate::load::NAMESPACE;
use crate::meter::cpu;
use crate::report::{figure, part};
use crate::servers::controllers::{Programs, kinds_of_errors};
use crate::servers::etcd::Cluster;
use crate::servers::kube_apiserver::{KubeApiserver, TOKEN};
use crate::servers::programs::named;

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const REPLICAS: usize = 3;
/// Each node takes 110 pods.
const NODES: usize = 40;
/// The time until informers are filled and the server is quiet.
const SETTLING: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(900);
/// With the default of 20 requests per second, only that limit would be measured.
const RATE: Option<u32> = Some(1_000);

/// The time and CPU until all pods were bound.
struct Took {
    elapsed: Duration,
    /// The CPU time of the server and of its store, in seconds.
    cpu: f64,
}

pub async fn measure() {
    let count = std::env::var("BENCH_DEPLOYMENTS").ok();
    let count = count.and_then(|text| text.parse().ok()).unwrap_or(1_000);
    part(&format!(
        "{count} deployments of {REPLICAS} replicas until their pods are bound, in protobuf"
    ));
    let programs = Programs::find().expect("the programs");
    let kube_apiserver = named("TAFFRAIL_KUBE_APISERVER").expect("a kube-apiserver");

    let cluster = Cluster::durable("3.5");
    let mut server = KubeApiserver::spawn(&kube_apiserver, &cluster);
    let client = Target::new(server.address(), Some(TOKEN.to_owned()), None).client();
    let asked = async || client.attempt(Call::get("/readyz")).await;
    server
        .until(async || asked().await.is_ok_and(|answer| answer.status == 200))
        .await;
    let controllers = programs.start(&server.kubeconfig(), MEDIA_TYPE, RATE);
    let used = || cpu(server.pid()) + cluster.members[0].cpu_seconds();
    tokio::time::sleep(SETTLING).await;
    let theirs = run(&client, count, used).await;
    let known = kinds_of_errors(&controllers.error_lines());
    drop((controllers, server, cluster));
    show("kube-apiserver and etcd", &theirs);

    let daemon = Daemon::with(&["--controllers=-namespace,-garbage-collector"]).await;
    let controllers = programs.start(&daemon.kubeconfig(), MEDIA_TYPE, RATE);
    tokio::time::sleep(SETTLING).await;
    let resident = daemon.resident();
    figure("memory, both connected and idle", resident, "MiB", "< 60");
    let ours = run(&daemon.client(), count, || cpu(daemon.pid())).await;
    let found = kinds_of_errors(&controllers.error_lines());
    drop(controllers);
    show("the daemon", &ours);
    figure("CPU of theirs over ours", theirs.cpu / ours.cpu, "", "> 5");
    let times = ours.elapsed.as_secs_f64() / theirs.elapsed.as_secs_f64();
    figure("time of ours over theirs", times, "", "<= 1");
    let new: Vec<_> = found.difference(&known).collect();
    let name = "kinds of errors in the logs, kube-apiserver's";
    figure(name, known.len() as f64, "", "");
    figure(
        "kinds that only the daemon causes",
        new.len() as f64,
        "",
        "0",
    );
    new.iter().for_each(|line| println!("    {line}"));
}

fn show(server: &str, took: &Took) {
    figure(
        &format!("{server}: time"),
        took.elapsed.as_secs_f64(),
        "s",
        "",
    );
    figure(&format!("{server}: CPU"), took.cpu, "s", "");
}

async fn run(client: &Client, count: usize, cpu: impl Fn() -> f64) -> Took {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    let created = client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    created.expect(201);
    for number in 0..NODES {
        kubelet::node(client, &format!("node-{number}"), 110).await;
    }
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let mut bound_pods = client
        .watch(&format!("{pods}?watch=true&fieldSelector=spec.nodeName!="))
        .await;
    let (start, before) = (Instant::now(), cpu());
    let creating = async {
        for number in 0..count {
            let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
            let created = client.call(Call::post(&path, &deployment(number))).await;
            created.expect(201);
        }
    };
    // kube-apiserver ends watches that nobody reads.
    let counting = async {
        let mut bound = HashSet::new();
        while bound.len() < count * REPLICAS {
            let event = bound_pods.event_within(TIMEOUT).await.expect("a bound pod");
            let name = event["object"]["metadata"]["name"].as_str();
            bound.insert(name.map(str::to_owned));
        }
    };
    tokio::join!(creating, counting);
    Took {
        elapsed: start.elapsed(),
        cpu: cpu() - before,
    }
}

fn deployment(number: usize) -> Value {
    let name = format!("web-{number:04}");
    let labels = json!({ "app": name });
    let container = json!({
        "name": "web",
        "image": "registry.example.com/web:1.2.3",
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
    });
    json!({ "metadata": { "name": name }, "spec": {
        "replicas": REPLICAS,
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    } })
}
