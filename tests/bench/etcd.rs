//! Measures the daemon's cost and added latency over etcd, compared with an etcd on the same
//! machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client as Etcd, Compare, CompareOp, Txn, TxnOp};
use futures_util::future::join_all;

use crate::daemons;
use crate::harness::{Call, Daemon, Protocol};
use crate::load::{self, Until, Verb};
use crate::meter::Sample;
use crate::report::{Durations, figure, noise, part};
use crate::servers::etcd::Cluster;

/// The etcd version to measure.
const VERSION: &str = "3.5";
/// The number of clients whose writes keep a daemon busy without queues.
const CLIENTS: u64 = 8;
/// The number of objects that fill a cache.
const OBJECTS: u64 = 100_000;

async fn cluster() -> Cluster {
    daemons::cluster(VERSION).await
}

async fn daemon(cluster: &Cluster) -> Daemon {
    daemons::beside(cluster, &[]).await
}

/// Runs all measurements.
pub async fn measure(time: Duration) {
    if std::env::var_os("BENCH_RATES").is_none() {
        costs(time).await;
    }
    latency(time).await;
    consistent_lists(time).await;
    filling().await;
}

/// Measures the daemon's CPU for a write.
async fn costs(time: Duration) {
    part(&format!(
        "writes of 1 KiB over etcd {VERSION}, {CLIENTS} clients"
    ));
    let cluster = cluster().await;
    let daemon = daemon(&cluster).await;
    load::namespace(&daemon).await;
    let mut objects = 0;
    for verb in [Verb::Create, Verb::Update] {
        let before = cluster.members[0].cpu_seconds();
        let written = load::write(&daemon, verb, CLIENTS, objects, Until::Time(time)).await;
        objects = objects.max(written.count);
        let name = if verb == Verb::Create {
            "create"
        } else {
            "update"
        };
        let each = |seconds: f64| seconds / written.count as f64 * 1e3;
        let rate = written.count as f64 / written.used.elapsed.as_secs_f64();
        figure(&format!("{name}s a second"), rate, "/s", "");
        figure(
            &format!("CPU of the daemon for one {name}"),
            each(written.used.daemon),
            "ms",
            "<= 0.2",
        );
        let etcds = cluster.members[0].cpu_seconds() - before;
        figure(
            &format!("CPU of etcd for one {name}"),
            each(etcds),
            "ms",
            "",
        );
        noise((written.used.other_cores - etcds / written.used.elapsed.as_secs_f64()).max(0.0));
    }
}

/// Returns a write as an etcd client makes it: put the value if the key is absent.
fn transaction(key: &str, value: &str) -> Txn {
    Txn::new()
        .when([Compare::mod_revision(key, CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key, value, None)])
        .or_else([TxnOp::get(key, None)])
}

/// Measures the maximum write rate of another etcd.
async fn saturated(cluster: &Cluster, time: Duration) -> f64 {
    let start = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let value = load::object(0, "0").to_string();
    let writers = (0..64).map(|_| {
        let (next, value, urls) = (next.clone(), value.clone(), cluster.urls());
        tokio::spawn(async move {
            let mut etcd = Etcd::connect(urls, None).await.unwrap();
            while start.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let key = format!("/load/{number}");
                etcd.txn(transaction(&key, &value)).await.unwrap();
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    next.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// Writes at a fixed rate, independent of earlier writes, and returns the duration of each.
async fn paced<F, W>(rate: f64, time: Duration, write: W) -> Durations
where
    W: Fn(u64) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let start = Instant::now();
    let count = (rate * time.as_secs_f64()) as u64;
    let mut running = Vec::new();
    for number in 0..count {
        let due = start + Duration::from_secs_f64(number as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        let write = write(number);
        running.push(tokio::spawn(async move {
            let sent = Instant::now();
            write.await;
            sent.elapsed()
        }));
    }
    let mut all = Durations::default();
    for each in join_all(running).await {
        all.add(each.unwrap());
    }
    all
}

/// Measures the latency that the daemon adds to a write, at the rates in BENCH_RATES (`500,1000`).
/// The default rates are half of etcd's maximum: with daemon and load on the same cores, and alone.
async fn latency(time: Duration) {
    part("latency that the daemon adds to a write of etcd's");
    let cluster = cluster().await;
    let daemon = daemon(&cluster).await;
    load::namespace(&daemon).await;
    let rates = match std::env::var("BENCH_RATES") {
        Ok(rates) => rates.split(',').map(|rate| rate.parse().unwrap()).collect(),
        Err(_) => {
            let written = load::write(&daemon, Verb::Create, 64, 0, Until::Time(time / 2)).await;
            let shared = written.count as f64 / written.used.elapsed.as_secs_f64();
            let what = "etcd's saturated write rate, the daemon before it";
            figure(what, shared, "/s", "");
            let alone = saturated(&cluster, time / 2).await;
            figure("etcd's saturated write rate, alone", alone, "/s", "");
            vec![shared / 2.0, alone / 2.0]
        }
    };
    for rate in rates {
        added(&cluster, &daemon, rate, time).await;
    }
}

/// Writes at a rate directly to etcd and through the daemon.
async fn added(cluster: &Cluster, daemon: &Daemon, rate: f64, time: Duration) {
    let (mut direct, mut through) = (Durations::default(), Durations::default());
    let clients: Arc<Vec<_>> = Arc::new(
        (0..CLIENTS)
            .map(|_| daemon.target().client_over(Protocol::Http2))
            .collect(),
    );
    let mut means = Means::default();
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let connection = Etcd::connect(cluster.urls(), None).await.unwrap();
        connections.push(connection.kv_client());
    }
    // The loads alternate, so that both see the same state of the machine.
    const TURNS: u64 = 5;
    for _ in 0..TURNS {
        let run = uuid::Uuid::new_v4();
        let writing = paced(rate, time / (2 * TURNS as u32), |number| {
            let mut kv = connections[(number % CLIENTS) as usize].clone();
            let value = load::object(number, "0").to_string();
            async move {
                let key = format!("/direct/{run}/{number}");
                kv.txn(transaction(&key, &value)).await.unwrap();
            }
        });
        direct.extend(writing.await);
        let before = Means::take(daemon).await;
        let clients = clients.clone();
        let writing = paced(rate, time / (2 * TURNS as u32), |number| {
            let clients = clients.clone();
            let mut object = load::object(number, "0");
            object["metadata"]["name"] = format!("{run}-{number}").into();
            let call = Call::post(&load::collection(), &object);
            async move {
                let client = &clients[(number % CLIENTS) as usize];
                client.call(call).await.expect(201);
            }
        });
        through.extend(writing.await);
        means.add(&before, &Means::take(daemon).await);
    }
    println!("  at {rate:.0} writes a second, {CLIENTS} clients:");
    for (share, name, wanted) in [(0.5, "p50", "< 0.3"), (0.99, "p99", "")] {
        let (etcds, ours) = (direct.percentile(share), through.percentile(share));
        figure(&format!("{name} of etcd alone"), etcds, "ms", "");
        figure(&format!("{name} through the daemon"), ours, "ms", "");
        figure(&format!("{name} added"), ours - etcds, "ms", wanted);
    }
    let (request, store) = (means.request.each(), means.store.each());
    figure("mean of etcd alone", direct.mean(), "ms", "");
    figure("mean through the daemon", through.mean(), "ms", "");
    figure(
        "of it from request to response, in the daemon",
        request,
        "ms",
        "",
    );
    figure("of it from a call to etcd to its response", store, "ms", "");
}

/// A sum of durations in seconds, and their number.
#[derive(Clone, Copy, Default)]
struct Total {
    seconds: f64,
    count: f64,
}

impl Total {
    /// Adds the difference between two readings.
    fn add(&mut self, before: Total, after: Total) {
        self.seconds += after.seconds - before.seconds;
        self.count += after.count - before.count;
    }

    /// Returns the mean in milliseconds.
    fn each(self) -> f64 {
        self.seconds / self.count * 1e3
    }
}

/// The duration of creates by phase, from the daemon's own histograms.
#[derive(Default)]
struct Means {
    request: Total,
    store: Total,
}

impl Means {
    async fn take(daemon: &Daemon) -> Means {
        let page = daemon.client().call(Call::get("/metrics")).await.text();
        let sum = |name: &str, label: &str| {
            let lines = page
                .lines()
                .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum::<f64>()
        };
        let total = |name: &str, label: &str| Total {
            seconds: sum(&format!("{name}_sum"), label),
            count: sum(&format!("{name}_count"), label),
        };
        Means {
            request: total("apiserver_request_duration_seconds", r#"verb="POST""#),
            store: total("etcd_request_duration_seconds", r#"operation="create""#),
        }
    }

    fn add(&mut self, before: &Means, after: &Means) {
        self.request.add(before.request, after.request);
        self.store.add(before.store, after.store);
    }
}

/// Returns the sum of an etcd counter for some labels.
async fn counted(cluster: &Cluster, labels: &str) -> f64 {
    let page = daemons::metrics(cluster).await;
    let lines = page
        .lines()
        .filter(|line| line.contains(labels) && !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Measures the reads of etcd for a thousand consistent lists per second, with writes that keep the
/// cache busy.
async fn consistent_lists(time: Duration) {
    part("1,000 consistent lists a second with 100 writes a second");
    let cluster = cluster().await;
    let daemon = daemon(&cluster).await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, CLIENTS, 0, Until::Count(100)).await;
    let ranges = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Range""#;
    let idle = {
        let before = counted(&cluster, ranges).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        (counted(&cluster, ranges).await - before) / 5.0
    };
    let before = counted(&cluster, ranges).await;
    let start = Sample::take(daemon.pid());
    let client = Arc::new(daemon.client());
    let path = format!("{}?limit=500", load::collection());
    let writing = {
        let client = daemon.client();
        let deadline = Instant::now() + time;
        tokio::spawn(async move {
            let mut number = 0_u64;
            while Instant::now() < deadline {
                number += 1;
                let path = format!("{}/{}", load::collection(), load::name(number % 100));
                let object = load::object(number % 100, &number.to_string());
                client.call(Call::put(&path, &object)).await.expect(200);
                tokio::time::sleep(Duration::from_millis(9)).await;
            }
        })
    };
    let mut listed = paced(1000.0, time, |_| {
        let (client, path) = (client.clone(), path.clone());
        async move {
            client.call(Call::get(&path)).await.expect(200);
        }
    })
    .await;
    let used = start.until(&Sample::take(daemon.pid()));
    writing.await.unwrap();
    let reads = (counted(&cluster, ranges).await - before) / used.elapsed.as_secs_f64() - idle;
    figure(
        "lists a second",
        listed.len() as f64 / used.elapsed.as_secs_f64(),
        "/s",
        "",
    );
    figure("reads of etcd a second for them", reads, "/s", "<= 200");
    figure("list p50", listed.percentile(0.5), "ms", "");
    figure("list p99", listed.percentile(0.99), "ms", "");
}

/// Measures the time from exec to full caches, over a cluster with many objects.
async fn filling() {
    part(&format!(
        "filling a cache with {OBJECTS} objects of 1 KiB from etcd"
    ));
    let cluster = cluster().await;
    let first = daemon(&cluster).await;
    load::namespace(&first).await;
    load::write(&first, Verb::Create, 64, 0, Until::Count(OBJECTS)).await;
    drop(first);
    let mut all = Durations::default();
    for _ in 0..3 {
        let start = Instant::now();
        let daemon = daemon(&cluster).await;
        all.add(start.elapsed());
        let path = format!("{}?resourceVersion=0&limit=1", load::collection());
        daemon.client().call(Call::get(&path)).await.expect(200);
    }
    figure(
        "exec to every cache filled, median of 3",
        all.percentile(0.5),
        "ms",
        "< 3000",
    );
}
