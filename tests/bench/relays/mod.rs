//! Measures relays between clients and a stand-in for a kubelet: their CPU compared with a bare
//! loop that moves the same bytes, the memory of idle ones, and their effect on watchers.
//!
//! Clients and the stand-in are in this process, and the bare loop is in one of its own.

pub mod bare;
mod beside;
mod idle;
mod ways;

use std::path::Path;

use bare::Bare;
use ways::{POD, PODS, Way, container};

use crate::harness::{Call, Daemon, Protocol, Target};
use crate::kubelet::{Kubelet, pod_on};
use crate::meter::{self, Sample};
use crate::report::{figure, noise, part};
use crate::servers::etcd::Cluster;
use crate::servers::kube_apiserver::{KubeApiserver, TOKEN};
use crate::servers::programs::named;

pub use beside::measure as beside;
pub use idle::measure as idle;

/// How often each way is measured, in turns with the bare loop.
const ROUNDS: usize = 3;

const MIB: f64 = (1 << 20) as f64;

/// The ways, with their limits in the CPU of the bare loop.
const WAYS: [(Way, &str); 6] = [
    (Way::Log(Protocol::Http1), "<= 1.3"),
    (Way::Log(Protocol::Http2), "<= 1.3"),
    (Way::PortForward, "<= 1.3"),
    (Way::Output, ""),
    (Way::Input, ""),
    (Way::Tunnel, ""),
];

/// The ways that are compared with those of a kube-apiserver.
const COMPARED: [Way; 3] = [
    Way::Log(Protocol::Http1),
    Way::Log(Protocol::Http2),
    Way::PortForward,
];

/// Starts a daemon that knows a kubelet, and whose node has pods for all ways of `bytes`.
async fn daemon(kubelet: &Kubelet, bytes: u64) -> Daemon {
    let flags = kubelet.flags();
    // A second user relays while the first one watches.
    let users = format!("{},relays,2,system:masters\n", beside::TOKEN);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::with_users(&users, &flags).await;
    join(kubelet, &daemon.target(), bytes).await;
    daemon
}

/// Makes the stand-in's node and its pods.
async fn join(kubelet: &Kubelet, target: &Target, bytes: u64) {
    let client = target.client();
    let name = container(bytes);
    let endless = container(u64::MAX);
    let containers = ["main", "command", &name, &endless, beside::PACED];
    kubelet.join(&client, "n", POD, &containers).await;
    pod_on(&client, "n", &name, &["main"]).await;
}

/// Returns the seconds of CPU that a process uses for `work`.
async fn cost(pid: u32, work: impl Future<Output = ()>) -> f64 {
    let before = meter::threads(pid);
    work.await;
    meter::threads(pid) - before
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Relays `gib` GiB each way.
pub async fn measure(gib: f64) {
    // Whole MiB, of which the output of commands consists.
    let bytes = ((gib * 1024.0).round().max(1.0) as u64) << 20;
    part(&format!(
        "{} MiB relayed, in turns by the daemon and by a bare loop",
        bytes >> 20
    ));
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, bytes).await;
    let bare = Bare::start(&kubelet);
    let (target, loop_target) = (daemon.target(), bare.target());
    let begin = Sample::take(daemon.pid());
    let mut of_bare = 0.0;
    for (way, limit) in WAYS {
        // Connections, buffers and code that are used for the first time.
        way.through(&target, bytes).await;
        let [mut ours, mut theirs, mut ratios] = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let relayed = cost(daemon.pid(), way.through(&target, bytes)).await;
            let looped = cost(bare.pid(), way.through_bare(&loop_target, bytes)).await;
            of_bare += looped;
            // The loop for input moves bytes down as well.
            let (relayed, looped) = (
                relayed / way.bytes(bytes) as f64,
                looped / way.bare().bytes(bytes) as f64,
            );
            ours.push(relayed);
            theirs.push(looped);
            ratios.push(relayed / looped);
        }
        println!("  {}", way.name());
        let micros = |of: Vec<f64>| median(of) * MIB * 1e6;
        figure("  CPU for a MiB", micros(ours), "µs", "");
        figure("  the same in a bare loop", micros(theirs), "µs", "");
        figure("  ratio", median(ratios), "", limit);
    }
    let used = begin.until(&Sample::take(daemon.pid()));
    noise((used.other_cores - of_bare / used.elapsed.as_secs_f64()).max(0.0));
    compare(&kubelet, &daemon, bytes).await;
}

/// Relays the same through a kube-apiserver, where TAFFRAIL_KUBE_APISERVER names one.
async fn compare(kubelet: &Kubelet, daemon: &Daemon, bytes: u64) {
    let Some(program) = named("TAFFRAIL_KUBE_APISERVER") else {
        return;
    };
    let cluster = Cluster::durable("3.5");
    let server = kube_apiserver(&program, &cluster, kubelet).await;
    let target = Target::new(server.address(), Some(TOKEN.to_owned()), None);
    join(kubelet, &target, bytes).await;
    for way in COMPARED {
        way.through(&target, bytes).await;
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let ours = cost(daemon.pid(), way.through(&daemon.target(), bytes)).await;
            let theirs = cost(server.pid(), way.through(&target, bytes)).await;
            ratios.push(ours / theirs);
        }
        let name = format!("CPU in that of kube-apiserver, {}", way.name());
        figure(&name, median(ratios), "", "<= 0.5");
    }
}

async fn kube_apiserver(program: &Path, cluster: &Cluster, kubelet: &Kubelet) -> KubeApiserver {
    let mut server = KubeApiserver::spawn_with(program, cluster, &kubelet.flags());
    let client = Target::new(server.address(), Some(TOKEN.to_owned()), None).client();
    // Pods need the namespace `default`, which it makes after its start.
    let asked = async || client.attempt(Call::get(PODS)).await;
    let namespace = async || {
        let path = "/api/v1/namespaces/default";
        client.attempt(Call::get(path)).await
    };
    let ready = async || client.attempt(Call::get("/readyz")).await;
    server
        .until(async || {
            asked().await.is_ok_and(|answer| answer.status == 200)
                && namespace().await.is_ok_and(|answer| answer.status == 200)
                && ready().await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    server
}
