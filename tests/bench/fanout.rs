//! Measures one object with many watchers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::daemons::{self, Measured};
use crate::harness::client::Lines;
use crate::harness::{Call, Client, Target, version};
use crate::load::{self, STREAMS};
use crate::meter::{Sample, Used, kernel_memory};
use crate::report::{Durations, figure, noise, part};

/// The durations of deliveries by watcher, since they were last taken.
#[derive(Clone, Default)]
pub struct Stamps(Arc<Mutex<Vec<Arc<Mutex<Durations>>>>>);

impl Stamps {
    fn watcher(&self) -> Arc<Mutex<Durations>> {
        let own = Arc::default();
        self.0.lock().unwrap().push(Arc::clone(&own));
        own
    }

    /// Takes the durations of all watchers.
    pub fn take(&self) -> Durations {
        let mut all = Durations::default();
        for own in &*self.0.lock().unwrap() {
            all.extend(std::mem::take(&mut *own.lock().unwrap()));
        }
        all
    }
}

/// The numbers of watchers and updates.
#[derive(Clone, Copy)]
pub struct FanoutOptions {
    pub watchers: usize,
    /// The watches of one connection.
    pub streams: usize,
    /// Whether the watchers request protobuf.
    pub is_protobuf: bool,
    /// The updates per second.
    pub rate: f64,
    pub time: Duration,
}

/// The result of a run.
pub struct Outcome {
    /// Memory of the daemon and of the kernel for all idle watches, in KiB.
    pub memory: f64,
    pub kernel_memory: f64,
    /// The CPU seconds that the daemon used to open all watches.
    pub opening: f64,
    /// The resources used from the first update to the last delivery.
    pub used: Used,
    /// The cores that the store used during the run.
    pub store_cores: f64,
    pub updates: u64,
    /// How long sending took.
    pub sent: Duration,
    pub delivered: u64,
    pub lost: u64,
    /// The number of events that were repeated or out of order.
    pub wrong: u64,
    pub latency: Durations,
}

/// Updates one object at a rate while `watchers` watchers watch its namespace, and prints the
/// result.
pub async fn measure(watchers: usize, rate: f64, time: Duration) {
    part(&format!(
        "{watchers} watchers over HTTP/2 of one object of 1 KiB, {rate} updates/s"
    ));
    let options = FanoutOptions {
        watchers,
        streams: STREAMS,
        is_protobuf: false,
        rate,
        time,
    };
    let mut result = run(daemons::daemon().await, options).await;
    if watchers > 100 {
        let each = result.memory / watchers as f64;
        figure("memory for one idle watch", each, "KiB", "");
    }
    let reached = result.updates as f64 / result.sent.as_secs_f64();
    figure("updates/s reached", reached, "/s", "");
    figure(
        "CPU of the daemon for a million deliveries",
        result.used.daemon / (result.delivered as f64 / 1e6),
        "s",
        "<= 3",
    );
    figure("lost", result.lost as f64, "", "0");
    figure("repeated or out of order", result.wrong as f64, "", "0");
    let (p50, p99) = (
        result.latency.percentile(0.5),
        result.latency.percentile(0.99),
    );
    figure("write to delivery p50", p50, "ms", "");
    let wanted = if watchers == 1 { "< 5" } else { "" };
    figure("write to delivery p99", p99, "ms", wanted);
    noise((result.used.other_cores - result.store_cores).max(0.0));
}

/// Updates one object of a new daemon at a rate while watchers watch its namespace.
pub async fn run(daemon: Measured, options: FanoutOptions) -> Outcome {
    load::namespace(&daemon).await;
    let client = daemon.client();
    let created = client
        .call(Call::post(&load::collection(), &load::object(0, "0")))
        .await;
    let from = version(&created.expect(201));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (memory, kernel_memory) = (daemon.resident(), kernel_memory());
    let origin = Instant::now();
    let updates = (options.rate * options.time.as_secs_f64()) as u64;
    let delivered = Arc::new(AtomicU64::new(0));
    let start = Sample::take(daemon.pid());
    let stamps = Stamps::default();
    let watching = record(&daemon.target(), options, from, origin, &delivered, &stamps).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let opening = start.until(&Sample::take(daemon.pid())).daemon;
    let memory = (daemon.resident() - memory) * 1024.0;
    let kernel_memory = self::kernel_memory() - kernel_memory;

    let start = Sample::take(daemon.pid());
    let store_before = daemon.store_seconds();
    let sent = update(&client, updates, options.rate, origin).await;
    let wanted = updates * options.watchers as u64;
    let deadline = Instant::now() + Duration::from_secs(30);
    while delivered.load(Ordering::Relaxed) < wanted && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let used = start.until(&Sample::take(daemon.pid()));
    let store_cores = (daemon.store_seconds() - store_before) / used.elapsed.as_secs_f64();
    let delivered = delivered.load(Ordering::Relaxed);
    drop(daemon);
    let mut wrong = 0;
    for watcher in watching {
        wrong += watcher.await.unwrap();
    }
    Outcome {
        memory,
        kernel_memory,
        opening,
        used,
        store_cores,
        updates,
        sent,
        delivered,
        lost: wanted - delivered,
        wrong,
        latency: stamps.take(),
    }
}

/// Opens all watches. Each reads to its end, and returns how many events were repeated or out of
/// order.
pub async fn record(
    target: &Target,
    options: FanoutOptions,
    from: u64,
    origin: Instant,
    delivered: &Arc<AtomicU64>,
    stamps: &Stamps,
) -> Vec<JoinHandle<u64>> {
    let mut all = Vec::with_capacity(options.watchers);
    while all.len() < options.watchers {
        let client = Arc::new(target.client());
        let streams = options.streams.min(options.watchers - all.len());
        let path = format!(
            "{}?watch=true&resourceVersion={from}&timeoutSeconds=3600",
            load::collection()
        );
        let accept = match options.is_protobuf {
            true => "application/vnd.kubernetes.protobuf;stream=watch",
            false => "application/json",
        };
        let watch = || client.lines(Call::get(&path).header("accept", accept));
        for lines in join_all((0..streams).map(|_| watch())).await {
            let stream = Stream {
                lines: lines.unwrap(),
                is_protobuf: options.is_protobuf,
            };
            let (client, delivered) = (client.clone(), delivered.clone());
            let following = follow(client, stream, from, origin, delivered, stamps.watcher());
            all.push(tokio::spawn(following));
        }
    }
    all
}

/// The events of a watch.
struct Stream {
    lines: Lines,
    is_protobuf: bool,
}

impl Stream {
    /// Returns the version and the stamp of the next event. Parsing each delivery would cost more
    /// than the daemon spends on it.
    async fn next(&mut self) -> Option<(u64, Option<u64>)> {
        if !self.is_protobuf {
            let line = self.lines.next().await.ok()??;
            let version = number_after(&line, "\"resourceVersion\":\"").unwrap_or(0);
            return Some((version, number_after(&line, "\"stamp\":\"")));
        }
        let frame = self.lines.frame().await.ok()??;
        // A UUID of 36 bytes is field 5 of the metadata. The version, field 6, follows it.
        let uid = frame.windows(2).position(|window| window == [0x2a, 36])?;
        let version = &frame[uid + 2 + 36 + 2..];
        // Key and value are fields 1 and 2 of an entry.
        let stamp = frame.windows(6).position(|window| window == b"stamp\x12");
        let stamp = stamp.map(|at| number_of(&frame[at + 7..]));
        Some((number_of(version), stamp))
    }
}

/// Reads to the end of the stream.
async fn follow(
    client: Arc<Client>,
    mut stream: Stream,
    from: u64,
    origin: Instant,
    delivered: Arc<AtomicU64>,
    stamps: Arc<Mutex<Durations>>,
) -> u64 {
    let mut wrong = 0;
    let mut last = from;
    while let Some((version, stamp)) = stream.next().await {
        let now = origin.elapsed();
        wrong += u64::from(version <= last);
        last = version;
        if let Some(sent) = stamp {
            let took = now.saturating_sub(Duration::from_nanos(sent));
            stamps.lock().unwrap().add(took);
        }
        delivered.fetch_add(1, Ordering::Relaxed);
    }
    drop(client);
    wrong
}

/// Returns the number after the first such key.
pub fn number_after(text: &[u8], key: &str) -> Option<u64> {
    let found = text
        .windows(key.len())
        .position(|window| window == key.as_bytes())?;
    Some(number_of(&text[found + key.len()..]))
}

/// Returns the number that a text begins with.
fn number_of(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'))
}

/// Sends updates at a fixed rate, each with the current time. Returns the total duration.
pub async fn update(client: &Client, updates: u64, rate: f64, origin: Instant) -> Duration {
    let path = format!("{}/{}", load::collection(), load::name(0));
    let start = Instant::now();
    for number in 0..updates {
        let due = start + Duration::from_secs_f64(number as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        let stamp = origin.elapsed().as_nanos().to_string();
        client
            .call(Call::put(&path, &load::object(0, &stamp)))
            .await
            .expect(200);
    }
    start.elapsed()
}
