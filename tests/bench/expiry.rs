//! Measures many events that expire within a short time, and their effect on writers and watchers
//! of other objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fanout::number_after;
use crate::harness::client::Lines;
use crate::harness::{Call, Client, Daemon, version};
use crate::load;
use crate::meter::Sample;
use crate::report::{Durations, figure, noise, part};

/// The number of clients that create events.
const CREATORS: u64 = 32;
/// The number of watchers of the events, and of the object that is written meanwhile.
const WATCHERS: usize = 10;
/// The writes of that object per second.
const RATE: f64 = 50.0;
/// The time before any event expires.
const QUIET: Duration = Duration::from_secs(10);
/// A lower bound of creates per second, used to choose the time to live.
const CREATED_A_SECOND: u64 = 2000;

fn events() -> String {
    format!("/api/v1/namespaces/{}/events", load::NAMESPACE)
}

fn event(number: u64) -> serde_json::Value {
    json!({
        "metadata": { "name": format!("event-{number:07}") },
        "involvedObject": { "kind": "Pod", "namespace": load::NAMESPACE, "name": "pod" },
        "reason": "Measured",
        "message": "x".repeat(300),
        "source": { "component": "bench" },
    })
}

/// The latencies between two points in time.
struct Latencies {
    writes: Durations,
    deliveries: Durations,
}

/// Durations, each with its time since the start.
type Samples = Vec<(Duration, Duration)>;

/// Creates `count` events, waits until they expire, and compares that time with the quiet time
/// before.
pub async fn measure(count: u64) {
    let ttl = time_to_live(count);
    part(&format!(
        "{count} events that expire after {ttl} s, {WATCHERS} watchers of them, and of an object \
         that is written {RATE} times a second"
    ));
    let daemon = Daemon::with(&["--event-ttl", &format!("{ttl}s")]).await;
    let from = prepare(&daemon).await;
    let probe = Probe::start(&daemon, from).await;
    let created = create(&daemon, count).await;
    figure("events created a second", count as f64 / created, "/s", "");
    let from = newest(&daemon).await;
    let deletions = watch_events(&daemon, count, from, probe.origin).await;
    let quiet_from = probe.origin.elapsed();
    tokio::time::sleep(QUIET).await;
    let quiet = (quiet_from, probe.origin.elapsed());
    let busy = expire(&daemon, count, deletions).await;
    assert!(
        busy.0 >= quiet.1,
        "creating took too long for this time to live"
    );
    probe.end(daemon, quiet, busy).await;
}

/// Creates `count` events, kills the daemon, and starts it again when all of them have expired.
/// Compares the time of their removal with the quiet time after it.
pub async fn after_down_time(count: u64) {
    let ttl = time_to_live(count);
    part(&format!(
        "{count} events that expired while no daemon ran, the same watchers and writes"
    ));
    let mut daemon = Daemon::with(&["--event-ttl", &format!("{ttl}s")]).await;
    let from = prepare(&daemon).await;
    create(&daemon, count).await;
    let last = newest(&daemon).await;
    daemon.kill().await;
    tokio::time::sleep(Duration::from_secs(ttl + ttl / 20 + 1)).await;
    daemon.restart().await;
    let probe = Probe::start(&daemon, from).await;
    let deletions = watch_events(&daemon, count, last, probe.origin).await;
    let busy = expire(&daemon, count, deletions).await;
    let quiet_from = probe.origin.elapsed();
    tokio::time::sleep(QUIET).await;
    let quiet = (quiet_from, probe.origin.elapsed());
    probe.end(daemon, quiet, busy).await;
}

/// Returns enough seconds to create all events, and for a quiet time.
fn time_to_live(count: u64) -> u64 {
    30 + count / CREATED_A_SECOND
}

/// Creates the object for the writes, and returns its version.
async fn prepare(daemon: &Daemon) -> u64 {
    load::namespace(daemon).await;
    let object = Call::post(&load::collection(), &load::object(0, "0"));
    version(&daemon.client().call(object).await.expect(201))
}

/// Returns the version from which a watch sees only new events.
async fn newest(daemon: &Daemon) -> u64 {
    let client = daemon.client();
    let list = client.call(Call::get(&format!("{}?limit=1", events())));
    version(&list.await.expect(200))
}

/// Waits until all events are deleted. Returns when the first and the last one was.
async fn expire(
    daemon: &Daemon,
    count: u64,
    deletions: Vec<JoinHandle<Deletions>>,
) -> (Duration, Duration) {
    let start = Sample::take(daemon.pid());
    let resident = daemon.resident();
    let seen = join_all(deletions).await.into_iter();
    let seen: Vec<Deletions> = seen.map(Result::unwrap).collect();
    let used = start.until(&Sample::take(daemon.pid()));
    let first = seen.iter().map(|seen| seen.first).min().unwrap();
    let last = seen.iter().map(|seen| seen.last).max().unwrap();
    let lost: u64 = seen.iter().map(|seen| seen.lost).sum();
    figure(
        "all are deleted within",
        (last - first).as_secs_f64(),
        "s",
        "< 60",
    );
    let each = used.daemon / count as f64 * 1e3;
    figure("CPU of the daemon for 1,000 of them", each, "s", "");
    let more = daemon.resident() - resident;
    figure("more memory than before", more, "MiB", "");
    figure("deletions lost or repeated", lost as f64, "", "0");
    noise(used.other_cores);
    (first, last)
}

/// Writes and watches of an object during another activity.
struct Probe {
    origin: Instant,
    stop: Arc<AtomicBool>,
    writes: JoinHandle<Samples>,
    deliveries: Vec<JoinHandle<Samples>>,
}

impl Probe {
    async fn start(daemon: &Daemon, from: u64) -> Probe {
        let origin = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let deliveries = watch_object(daemon, from, origin).await;
        let writes = tokio::spawn(write_object(daemon.client(), origin, stop.clone()));
        Probe {
            origin,
            stop,
            writes,
            deliveries,
        }
    }

    /// Ends the daemon, and prints the measurements between these times.
    async fn end(self, daemon: Daemon, quiet: (Duration, Duration), busy: (Duration, Duration)) {
        self.stop.store(true, Ordering::Relaxed);
        let writes = self.writes.await.unwrap();
        drop(daemon);
        let mut delivered = Samples::new();
        for watcher in self.deliveries {
            delivered.extend(watcher.await.unwrap());
        }
        let mut quiet = latencies(&writes, &delivered, quiet);
        let mut busy = latencies(&writes, &delivered, busy);
        compare("write", &mut quiet.writes, &mut busy.writes);
        compare("delivery", &mut quiet.deliveries, &mut busy.deliveries);
    }
}

fn compare(what: &str, quiet: &mut Durations, busy: &mut Durations) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("worst", 1.0)] {
        let (before, during) = (quiet.percentile(share), busy.percentile(share));
        figure(&format!("{what} {name}, quiet"), before, "ms", "");
        figure(
            &format!("{what} {name}, while they expire"),
            during,
            "ms",
            "",
        );
        if share < 1.0 {
            figure(&format!("{what} {name}, ratio"), during / before, "", "");
        }
    }
}

fn latencies(
    writes: &Samples,
    delivered: &Samples,
    (from, until): (Duration, Duration),
) -> Latencies {
    let within = |samples: &Samples| {
        let mut durations = Durations::default();
        let chosen = samples.iter().filter(|(at, _)| (from..until).contains(at));
        chosen.for_each(|(_, took)| durations.add(*took));
        durations
    };
    Latencies {
        writes: within(writes),
        deliveries: within(delivered),
    }
}

/// Creates all events. Returns the seconds that this took.
async fn create(daemon: &Daemon, count: u64) -> f64 {
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let creators = (0..CREATORS).map(|_| {
        let (client, next) = (daemon.client(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let call = Call::post(&events(), &event(number));
                client.call(call).await.expect(201);
            }
        })
    });
    for creator in join_all(creators).await {
        creator.unwrap();
    }
    start.elapsed().as_secs_f64()
}

/// Writes the object at a fixed rate until stopped, each time with the current time.
async fn write_object(client: Client, origin: Instant, stop: Arc<AtomicBool>) -> Samples {
    let path = format!("{}/{}", load::collection(), load::name(0));
    let mut samples = Samples::new();
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / RATE));
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let sent = origin.elapsed();
        let body = load::object(0, &sent.as_nanos().to_string());
        client.call(Call::put(&path, &body)).await.expect(200);
        samples.push((sent, origin.elapsed() - sent));
    }
    samples
}

/// Follows the object to the end of the stream.
async fn watch_object(daemon: &Daemon, from: u64, origin: Instant) -> Vec<JoinHandle<Samples>> {
    let path = format!("{}?watch=1&resourceVersion={from}", load::collection());
    let mut following = Vec::new();
    for _ in 0..WATCHERS {
        let client = daemon.client();
        let mut lines = client.watch(&path).await;
        following.push(tokio::spawn(async move {
            let mut samples = Samples::new();
            while let Ok(Some(line)) = lines.next().await {
                if let Some(stamp) = number_after(&line, "\"stamp\":\"") {
                    let sent = Duration::from_nanos(stamp);
                    samples.push((sent, origin.elapsed().saturating_sub(sent)));
                }
            }
            drop(client);
            samples
        }));
    }
    following
}

/// The deletions that a watcher of the events saw.
struct Deletions {
    first: Duration,
    last: Duration,
    lost: u64,
}

/// Follows the events until all are deleted, or no event arrives in time.
async fn watch_events(
    daemon: &Daemon,
    count: u64,
    from: u64,
    origin: Instant,
) -> Vec<JoinHandle<Deletions>> {
    let path = format!("{}?watch=1&resourceVersion={from}", events());
    let mut following = Vec::new();
    for _ in 0..WATCHERS {
        let client = daemon.client();
        let lines = client.watch(&path).await;
        following.push(tokio::spawn(async move {
            let seen = deletions(lines, count, origin).await;
            drop(client);
            seen
        }));
    }
    following
}

async fn deletions(mut lines: Lines, count: u64, origin: Instant) -> Deletions {
    /// Longer than any event's expiry.
    const EVENT_TIMEOUT: Duration = Duration::from_secs(240);
    let mut gone = BTreeSet::new();
    let mut repeated = 0;
    let mut seen = Deletions {
        first: Duration::MAX,
        last: Duration::ZERO,
        lost: count,
    };
    while (gone.len() as u64) < count
        && let Ok(Ok(Some(line))) = tokio::time::timeout(EVENT_TIMEOUT, lines.next()).await
    {
        if !line.starts_with(b"{\"type\":\"DELETED\"") {
            continue;
        }
        let number = number_after(&line, "\"name\":\"event-");
        repeated += u64::from(!gone.insert(number));
        seen.first = seen.first.min(origin.elapsed());
        seen.last = origin.elapsed();
        seen.lost = count - gone.len() as u64 + repeated;
    }
    seen
}
