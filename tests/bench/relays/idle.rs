//! Measures the memory of sessions that are open at the same time and carry nothing.

use std::time::Duration;

use futures_util::future::join_all;

use super::ways::{POD, PODS};
use super::{daemon, median};
use crate::harness::upgrades::{Asked, Upgraded, V5};
use crate::harness::{Call, Daemon, Target};
use crate::kubelet::Kubelet;
use crate::meter::{self, kernel_memory};
use crate::report::{figure, part};

/// The sessions that are opened at the same time.
const OPENED_AT_ONCE: usize = 50;
/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);
/// The sessions before the measurement, whose memory later ones reuse.
const FIRST: usize = 100;

/// A kind of sessions.
#[derive(Clone, Copy)]
enum Kind {
    Raw,
    Translated,
}

impl Kind {
    async fn open(self, target: &Target) -> Upgraded {
        let path = format!("{PODS}/{POD}/exec");
        let asked = match self {
            Kind::Raw => {
                let path = format!("{path}?command=a&stdin=1&stdout=1&container=main");
                Asked::new("POST", &path, "SPDY/3.1")
                    .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            }
            Kind::Translated => {
                let command = "command=cat&stdin=1&stdout=1&container=command";
                Asked::web_socket(&format!("{path}?{command}")).protocols(V5)
            }
        };
        asked.send(target).await.unwrap()
    }
}

async fn open(target: &Target, kind: Kind, count: usize) -> Vec<Upgraded> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let more = OPENED_AT_ONCE.min(count - all.len());
        all.extend(join_all((0..more).map(|_| kind.open(target))).await);
    }
    all
}

/// The private memory in KiB, once it changes no more.
async fn settled(daemon: &Daemon) -> f64 {
    tokio::time::sleep(SETTLE).await;
    let mut readings = Vec::new();
    for _ in 0..5 {
        readings.push(meter::private(daemon.pid()));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    median(readings)
}

/// Opens so many sessions of each kind, each kind in a daemon of its own.
pub async fn measure(sessions: usize) {
    for (kind, name, limit) in [
        (Kind::Raw, "raw", "<= 40"),
        (Kind::Translated, "translated", "<= 64"),
    ] {
        part(&format!("{sessions} idle sessions at once, {name}"));
        let kubelet = Kubelet::start().await;
        let daemon = daemon(&kubelet, 1 << 20).await;
        let target = daemon.target();
        let first = open(&target, kind, FIRST).await;
        let (before, kernel) = (settled(&daemon).await, kernel_memory());
        let all = open(&target, kind, sessions).await;
        let each = |more: f64| more / sessions as f64;
        let memory = each(settled(&daemon).await - before);
        let kernel = each(kernel_memory() - kernel);
        // All of them are open: one more answer comes, and none has ended.
        daemon
            .client()
            .call(Call::get("/version"))
            .await
            .expect(200);
        let running = daemon.count("apiserver_longrunning_requests").await;
        assert_eq!(running as usize, sessions + FIRST);
        figure("private memory of one", memory, "KiB", limit);
        figure("kernel memory of one, with both peers", kernel, "KiB", "");
        drop((first, all));
    }
}
