//! The runs that measure the constants, each over a separate etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client as Etcd, Compare, CompareOp, Txn, TxnOp};
use futures_util::future::join_all;

use crate::daemons;
use crate::fanout::{self, FanoutOptions, Outcome};
use crate::harness::{Call, Daemon};
use crate::load::{self, Until, Verb};
use crate::meter::Sample;
use crate::report::{Durations, figure, noise, part};
use crate::servers::etcd::Cluster;

/// The etcd version to measure.
pub const VERSION: &str = "3.5";
/// The number of clients that keep a daemon busy without queues, and a large number of clients.
const CLIENTS: u64 = 8;
const MANY: u64 = 64;
/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(5);
/// The number of starts in a median.
const STARTS: usize = 5;
/// The number of lists from which the cost of a listed object is computed.
const LISTS: u64 = 10;
/// The number of objects that are updated in turn.
const UPDATED: u64 = 1000;
/// The number of daemons that follow in addition to the one that writes.
const FOLLOWERS: usize = 3;

/// A daemon that was just started.
pub struct Started {
    pub memory_mib: f64,
    /// From exec to ready, the median.
    pub seconds: f64,
}

/// A daemon that found objects in etcd.
pub struct Filled {
    pub started: Started,
    /// The bytes of the JSON of one object.
    pub object_bytes: f64,
    pub listed_cpu_us: f64,
}

/// The cost of updates, in microseconds of CPU.
pub struct Updates {
    pub taken_cpu_us: f64,
    pub followed_cpu_us: f64,
    /// The cost for etcd with one daemon, and for each further one.
    pub etcd_cpu_us: f64,
    pub event_cpu_us: f64,
}

/// The maximum of etcd.
pub struct Saturated {
    pub writes_per_s: f64,
    pub revision_bytes: f64,
}

/// Starts several daemons over a cluster, one after another, and returns the last.
async fn started(cluster: &Cluster) -> (Daemon, Started) {
    let mut all = Durations::default();
    let mut last = None;
    for _ in 0..STARTS {
        drop(last.take());
        let start = Instant::now();
        last = Some(daemons::beside(cluster, &[]).await);
        all.add(start.elapsed());
    }
    let daemon = last.unwrap();
    tokio::time::sleep(SETTLE).await;
    let started = Started {
        memory_mib: daemon.resident(),
        seconds: all.percentile(0.5) / 1e3,
    };
    (daemon, started)
}

/// Starts a daemon without objects. Returns the number of its watches on etcd.
pub async fn empty() -> (Started, f64) {
    part("a daemon without objects");
    let cluster = daemons::cluster(VERSION).await;
    let (daemon, started) = started(&cluster).await;
    let watches = metric(&cluster, "etcd_debugging_mvcc_watcher_total").await;
    drop(daemon);
    figure("memory", started.memory_mib, "MiB", "");
    figure("exec to ready", started.seconds, "s", "");
    figure("watches on etcd", watches, "", "");
    (started, watches)
}

/// Starts a daemon over objects with `filler` bytes of filler.
pub async fn filled(objects: u64, filler: usize) -> Filled {
    part(&format!("a daemon with {objects} objects, {filler} B each"));
    let cluster = daemons::cluster(VERSION).await;
    let first = daemons::beside(&cluster, &[]).await;
    load::namespace(&first).await;
    let count = Until::Count(objects);
    load::write_filled(&first, Verb::Create, MANY, 0, count, filler).await;
    drop(first);
    let (daemon, started) = started(&cluster).await;
    let client = daemon.client();
    let list = Call::get(&format!("{}?resourceVersion=0", load::collection()));
    let items = client.call(list.clone()).await.expect(200)["items"].take();
    let items = items.as_array().unwrap();
    assert_eq!(items.len() as u64, objects);
    let bytes: usize = items.iter().map(|item| item.to_string().len()).sum();
    let object_bytes = bytes as f64 / objects as f64;
    let before = Sample::take(daemon.pid());
    for _ in 0..LISTS {
        assert!(client.call(list.clone()).await.status.is_success());
    }
    let used = before.until(&Sample::take(daemon.pid()));
    let listed_cpu_us = used.daemon * 1e6 / (LISTS * objects) as f64;
    figure("memory", started.memory_mib, "MiB", "");
    figure("exec to ready", started.seconds, "s", "");
    figure("JSON of an object", object_bytes, "B", "");
    figure("CPU for a listed object", listed_cpu_us, "us", "");
    noise(used.other_cores);
    Filled {
        started,
        object_bytes,
        listed_cpu_us,
    }
}

/// Measures many watchers of one object.
pub async fn fan_out(watchers: usize, streams: usize, rate: f64, time: Duration) -> Outcome {
    part(&format!(
        "{watchers} watchers, {streams} to a connection, {rate} updates/s"
    ));
    let daemon = daemons::over(daemons::cluster(VERSION).await, &[]).await;
    let options = FanoutOptions {
        watchers,
        streams,
        is_protobuf: false,
        rate,
        time,
    };
    let result = fanout::run(daemon, options).await;
    let broken = (result.lost, result.wrong);
    assert_eq!(
        broken,
        (0, 0),
        "deliveries lost, and repeated or out of order"
    );
    let each = |total: f64, unit: f64| total * unit / watchers as f64;
    figure("memory for one watch", each(result.memory, 1.0), "KiB", "");
    let kernel = each(result.kernel_memory, 0.5);
    figure("memory of the kernel, one end", kernel, "KiB", "");
    figure("CPU to open a watch", each(result.opening, 1e6), "us", "");
    let delivery = result.used.daemon * 1e6 / result.delivered as f64;
    figure("CPU for a delivery", delivery, "us", "");
    noise((result.used.other_cores - result.store_cores).max(0.0));
    result
}

/// Measures updates through one daemon, alone and with others that follow.
pub async fn updates(time: Duration) -> Updates {
    part(&format!(
        "updates of 1 KiB through one daemon, alone and with {FOLLOWERS} more"
    ));
    let cluster = daemons::cluster(VERSION).await;
    let daemon = daemons::beside(&cluster, &[]).await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, MANY, 0, Until::Count(UPDATED)).await;
    let (alone, etcd_alone, _) = updated(&cluster, &daemon, &[], time).await;
    let mut beside = Vec::new();
    for _ in 0..FOLLOWERS {
        beside.push(daemons::beside(&cluster, &[]).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, etcd_beside, followed_cpu_us) = updated(&cluster, &daemon, &beside, time).await;
    let event_cpu_us = ((etcd_beside - etcd_alone) / FOLLOWERS as f64).max(0.0);
    figure("CPU of the daemon that takes one", alone, "us", "");
    figure("CPU of one that follows", followed_cpu_us, "us", "");
    figure("CPU of etcd", etcd_alone, "us", "");
    figure(
        "CPU of etcd for each further daemon",
        event_cpu_us,
        "us",
        "",
    );
    Updates {
        taken_cpu_us: alone,
        followed_cpu_us,
        etcd_cpu_us: etcd_alone,
        event_cpu_us,
    }
}

/// Updates for `time`. Returns the CPU per update of the daemon, of etcd and of each follower.
async fn updated(
    cluster: &Cluster,
    daemon: &Daemon,
    beside: &[Daemon],
    time: Duration,
) -> (f64, f64, f64) {
    let etcd = cluster.members[0].cpu_seconds();
    let before: Vec<_> = beside.iter().map(|one| Sample::take(one.pid())).collect();
    let until = Until::Time(time);
    let written = load::write(daemon, Verb::Update, CLIENTS, UPDATED, until).await;
    // Followers may lag behind the last answer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let each = |seconds: f64| seconds * 1e6 / written.count as f64;
    let followed = beside.iter().zip(&before);
    let followed = followed.map(|(one, before)| before.until(&Sample::take(one.pid())).daemon);
    let followed = followed.sum::<f64>() / beside.len().max(1) as f64;
    let etcd = cluster.members[0].cpu_seconds() - etcd;
    let elapsed = written.used.elapsed.as_secs_f64();
    figure("updates a second", written.count as f64 / elapsed, "/s", "");
    let known = (etcd + followed * beside.len() as f64) / elapsed;
    noise((written.used.other_cores - known).max(0.0));
    (each(written.used.daemon), each(etcd), each(followed))
}

/// Measures the maximum rate of updates of 1 KiB directly to etcd.
pub async fn saturated(time: Duration) -> (Saturated, String) {
    part("writes of 1 KiB straight to etcd, as many as it takes");
    let cluster = daemons::cluster(VERSION).await;
    let mut etcd = Etcd::connect(cluster.urls(), None).await.unwrap();
    let in_use = |status: etcd_client::StatusResponse| status.0.db_size_in_use as f64;
    let before = in_use(etcd.status().await.unwrap());
    let next = Arc::new(AtomicU64::new(0));
    let (reading, cpu) = (Sample::without_daemon(), cluster.members[0].cpu_seconds());
    let start = Instant::now();
    let writers = (0..MANY).map(|writer| {
        let (next, urls) = (Arc::clone(&next), cluster.urls());
        tokio::spawn(async move {
            let mut etcd = Etcd::connect(urls, None).await.unwrap();
            let key = format!("/registry/configmaps/load/{writer}");
            while start.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let value = load::object(writer, &number.to_string()).to_string();
                let written = etcd.txn(put(&key, &value)).await.unwrap();
                assert!(written.succeeded());
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    let count = next.load(Ordering::Relaxed) as f64;
    let used = reading.until(&Sample::without_daemon());
    let writes_per_s = count / used.elapsed.as_secs_f64();
    let cores = (cluster.members[0].cpu_seconds() - cpu) / used.elapsed.as_secs_f64();
    // Wait until its last batch is committed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = etcd.status().await.unwrap();
    let version = status.version().to_owned();
    let revision_bytes = (in_use(status) - before) / count;
    figure("writes a second", writes_per_s, "/s", "");
    figure("database for each", revision_bytes, "B", "");
    noise((used.other_cores - cores).max(0.0));
    let saturated = Saturated {
        writes_per_s,
        revision_bytes,
    };
    (saturated, version)
}

/// Returns a write as a daemon makes it: conditional, with a read of the value if the condition
/// fails.
fn put(key: &str, value: &str) -> Txn {
    Txn::new()
        .when([Compare::version(key, CompareOp::Greater, -1)])
        .and_then([TxnOp::put(key, value, None)])
        .or_else([TxnOp::get(key, None)])
}

/// Returns a metric of etcd.
async fn metric(cluster: &Cluster, name: &str) -> f64 {
    let page = daemons::metrics(cluster).await;
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().parse().unwrap()
}
