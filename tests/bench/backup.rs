//! Measures backups of a large store, and their effect on clients that watch meanwhile.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::drain::wait_for_end;
use crate::fanout::number_after;
use crate::harness::client::Lines;
use crate::harness::daemon::taffrail;
use crate::harness::{Call, Client, Daemon, version};
use crate::load::{self, STREAMS, Until, Verb};
use crate::meter::{Sample, Used};
use crate::report::{Durations, figure, noise, part};

/// The bytes of an object that fills the store. Its request stays below 64 KiB.
const FILLER: usize = 64_000;
/// The number of the first filling object.
const FILLER_FIRST: u64 = 1_000_000;
const WATCHERS: usize = 1_000;
/// The updates per second of the watched object.
const RATE: f64 = 20.0;
/// How long deliveries are measured without backups, and at least how long with them.
const DURATION: Duration = Duration::from_secs(10);
const MIB: f64 = (1 << 20) as f64;

/// Deliveries: when the update was sent, and how long its delivery took. Times count from a common
/// origin.
type Samples = Vec<(Duration, Duration)>;

/// The backups that were made one after the other.
#[derive(Default)]
struct Backups {
    count: u32,
    bytes: u64,
    time: Duration,
    /// The CPU time of the commands, in seconds.
    cpu: f64,
}

/// Measures with a store of `gib` GiB.
pub async fn measure(gib: f64) {
    part(&format!(
        "backups of a store of {gib} GiB, with {WATCHERS} watchers of an object that is updated \
         {RATE} times a second"
    ));
    let daemon = Arc::new(Daemon::start().await);
    load::namespace(&daemon).await;
    let objects = Until::Count((gib * 1024.0 * MIB) as u64 / FILLER as u64);
    load::write_filled(&daemon, Verb::Create, 8, FILLER_FIRST, objects, FILLER).await;
    rustix::fs::sync();
    let disk = disk_rate(&daemon.data(), (gib * 1024.0) as usize);

    let origin = Instant::now();
    let call = Call::post(&load::collection(), &load::object(0, "0"));
    let from = version(&daemon.client().call(call).await.expect(201));
    let watching = open(&daemon, from, origin).await;
    let stop = Arc::new(AtomicBool::new(false));
    let updating = tokio::spawn(update(daemon.client(), origin, Arc::clone(&stop)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = origin.elapsed()..origin.elapsed() + DURATION;
    tokio::time::sleep(DURATION).await;
    let start = Sample::take(daemon.pid());
    let begun = origin.elapsed();
    // Removing files of this size would keep the disk busy, so they stay until the end.
    let folder = tempfile::tempdir().unwrap();
    let backups = back_up(Arc::clone(&daemon), folder.path().to_owned()).await;
    let during = begun..origin.elapsed();
    let used = start.until(&Sample::take(daemon.pid()));
    stop.store(true, Ordering::Relaxed);
    let updates = updating.await.unwrap();
    // The last update is delivered, and then the streams end.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(Arc::into_inner(daemon).expect("the last use of it"));
    let samples: Samples = join_all(watching)
        .await
        .into_iter()
        .flat_map(Result::unwrap)
        .collect();
    let among = |phase: &std::ops::Range<Duration>| {
        let mut latency = Durations::default();
        let chosen = samples.iter().filter(|(sent, _)| phase.contains(sent));
        chosen.for_each(|(_, took)| latency.add(*took));
        latency
    };
    let mut latency = [among(&before), among(&during)];
    let lost = (updates * WATCHERS).abs_diff(samples.len());
    print(&backups, disk, &used, &mut latency);
    figure("deliveries lost or repeated", lost as f64, "", "0");
    let other = used.other_cores - backups.cpu / used.elapsed.as_secs_f64();
    noise(other.max(0.0));
}

fn print(backups: &Backups, disk: f64, used: &Used, latency: &mut [Durations; 2]) {
    let rate = backups.bytes as f64 / MIB / backups.time.as_secs_f64();
    let gib = backups.bytes as f64 / MIB / 1024.0;
    figure("a file of that size, written and synced", disk, "MiB/s", "");
    figure("backups made", f64::from(backups.count), "", "");
    let each = gib / f64::from(backups.count);
    figure("size of each", each, "GiB", "");
    figure("rate of a backup", rate, "MiB/s", ">= 200");
    figure("rate of a backup / that of the file", rate / disk, "", "");
    figure("CPU of the daemon for a GiB", used.daemon / gib, "s", "");
    figure("CPU of the command for a GiB", backups.cpu / gib, "s", "");
    let [before, during] = latency.each_mut().map(|latency| latency.percentile(0.99));
    figure("write to delivery p99 before", before, "ms", "");
    figure("write to delivery p99 during", during, "ms", "");
    figure("during / before", during / before, "", "<= 2");
}

/// Returns the MiB per second at which the disk of a directory writes a file of `mebibytes`.
fn disk_rate(directory: &Path, mebibytes: usize) -> f64 {
    // The content is incompressible, because some disks compress.
    let mut state = 1_u64;
    let block: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let path = directory.join("disk-rate");
    let mut file = File::create(&path).unwrap();
    let begun = Instant::now();
    for _ in 0..mebibytes {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    let took = begun.elapsed();
    std::fs::remove_file(path).unwrap();
    mebibytes as f64 / took.as_secs_f64()
}

/// Backs up a daemon repeatedly until the time is over.
async fn back_up(daemon: Arc<Daemon>, folder: PathBuf) -> Backups {
    let run = move || {
        let begun = Instant::now();
        let mut all = Backups::default();
        while begun.elapsed() < DURATION {
            let file = folder.join(all.count.to_string());
            let start = Sample::without_daemon();
            let begun = Instant::now();
            let mut command = taffrail();
            command.arg("backup").arg(&file).arg("--data-dir");
            command.arg(daemon.data()).stdout(Stdio::null());
            let mut child = command.spawn().unwrap();
            let (end, ended) = wait_for_end(child.id());
            assert!(child.wait().unwrap().success());
            all.count += 1;
            all.time += ended - begun;
            all.cpu += start.until(&end).daemon;
            all.bytes += file.metadata().unwrap().len();
        }
        all
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Watches the object. Each watch ends with the daemon.
async fn open(daemon: &Daemon, from: u64, origin: Instant) -> Vec<JoinHandle<Samples>> {
    let path = format!(
        "{}?watch=true&timeoutSeconds=3600&resourceVersion={from}\
         &fieldSelector=metadata.name%3D{}",
        load::collection(),
        load::name(0)
    );
    let mut all = Vec::with_capacity(WATCHERS);
    while all.len() < WATCHERS {
        let client = Arc::new(daemon.client());
        let streams = STREAMS.min(WATCHERS - all.len());
        for lines in join_all((0..streams).map(|_| client.watch(&path))).await {
            all.push(tokio::spawn(follow(lines, Arc::clone(&client), origin)));
        }
    }
    all
}

async fn follow(mut lines: Lines, client: Arc<Client>, origin: Instant) -> Samples {
    let mut samples = Samples::new();
    while let Ok(Some(line)) = lines.next().await {
        let now = origin.elapsed();
        if let Some(sent) = number_after(&line, "\"stamp\":\"") {
            let sent = Duration::from_nanos(sent);
            samples.push((sent, now.saturating_sub(sent)));
        }
    }
    drop(client);
    samples
}

/// Updates the object at a fixed rate until stopped, each time with the current time. Returns the
/// number of updates.
async fn update(client: Client, origin: Instant, stop: Arc<AtomicBool>) -> usize {
    let path = format!("{}/{}", load::collection(), load::name(0));
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / RATE));
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let stamp = origin.elapsed().as_nanos().to_string();
        let call = Call::put(&path, &load::object(0, &stamp));
        client.call(call).await.expect(200);
        count += 1;
    }
    count
}
