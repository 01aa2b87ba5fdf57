//! Kills the daemon while thousands of watches of quiet resources are open, after another resource
//! has changed many times. All watches resume at once, from before the revision at which the caches
//! are filled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Protocol, Target, version};
use crate::load::{self, STREAMS};
use crate::meter::Sample;
use crate::report::{Durations, figure, noise, part};

/// How long a client waits before it reconnects, unless the server asks for another delay.
const PAUSE: Duration = Duration::from_millis(20);

/// The counts of all watches.
#[derive(Default)]
struct Counts {
    refused: AtomicU64,
    expired: AtomicU64,
    /// The version that ends the run, or 0 until it is known.
    end: AtomicU64,
}

/// Returns the quiet resources: their collections, each with one object.
fn collections() -> [String; 9] {
    let below = |path: &str| format!("{path}/namespaces/{}", load::NAMESPACE);
    [
        load::collection(),
        format!("{}/serviceaccounts", below("/api/v1")),
        format!("{}/leases", below("/apis/coordination.k8s.io/v1")),
        "/api/v1/nodes".to_owned(),
        format!("{}/pods", below("/api/v1")),
        "/api/v1/namespaces".to_owned(),
        format!("{}/resourcequotas", below("/api/v1")),
        format!("{}/events", below("/api/v1")),
        format!("{}/networkpolicies", below("/apis/networking.k8s.io/v1")),
    ]
}

const NAME: &str = "resumed";

/// Returns an object that is valid for any of these resources. Unknown fields are dropped.
fn object(stamp: &str) -> Value {
    let containers = json!([{ "name": "c", "image": "i" }]);
    json!({
        "metadata": { "name": NAME, "annotations": { "stamp": stamp } },
        "involvedObject": { "namespace": load::NAMESPACE },
        "spec": { "containers": containers },
    })
}

/// Kills the daemon while `watchers` clients watch `resources` quiet resources and another resource
/// changes at full speed. Waits until all watches have caught up.
pub async fn measure(watchers: usize, resources: usize, time: Duration, goal: &str) {
    part(&format!(
        "{watchers} watches of {resources} quiet resources over HTTP/2, resumed after kill -9 beside \
         {} s of writes to another resource",
        time.as_secs()
    ));
    let mut daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let collections = &collections()[..resources];
    let mut from = 0;
    for collection in collections {
        let call = Call::post(collection, &object("0"));
        from = version(&daemon.client().call(call).await.expect(201));
    }
    let counts = Arc::new(Counts::default());
    let watching: Vec<_> = (0..watchers.div_ceil(STREAMS))
        .flat_map(|_| {
            let client = Arc::new(daemon.client());
            (0..STREAMS).map(move |_| Arc::clone(&client))
        })
        .take(watchers)
        .zip(collections.iter().cycle().cloned())
        .map(|(client, path)| tokio::spawn(follow(client, path, from, Arc::clone(&counts))))
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let written = write_secrets(&daemon, time).await;
    figure(
        "events of the other resource meanwhile",
        written as f64,
        "",
        "",
    );

    daemon.kill().await;
    daemon.relaunch().await;
    daemon.ready().await;
    let ready = Instant::now();
    let start = Sample::take(daemon.pid());
    let deliveries = tokio::spawn(deliveries(daemon.target()));
    let mut end = 0;
    for collection in collections {
        let stamp = json!({ "metadata": { "annotations": { "stamp": "1" } } });
        let patch = Call::merge_patch(&format!("{collection}/{NAME}"), &stamp);
        end = version(&daemon.client().call(patch).await.expect(200));
    }
    counts.end.store(end, Ordering::SeqCst);
    let mut caught_up = Durations::default();
    for watcher in watching {
        let at: Instant = watcher.await.unwrap();
        caught_up.add(at.saturating_duration_since(ready));
    }
    let used = start.until(&Sample::take(daemon.pid()));
    let mut deliveries = deliveries.await.unwrap();
    let seconds = |milliseconds: f64| milliseconds / 1e3;
    figure(
        "ready to half of them caught up",
        seconds(caught_up.percentile(0.5)),
        "s",
        "",
    );
    figure(
        "ready to all caught up",
        seconds(caught_up.percentile(1.0)),
        "s",
        goal,
    );
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst) as f64;
    figure(
        "refused because their version is gone (410)",
        count(&counts.expired),
        "",
        "0",
    );
    figure(
        "refused with a later retry",
        count(&counts.refused),
        "",
        "0",
    );
    figure("CPU of the daemon", used.daemon, "s", "");
    let rate = deliveries.len() as f64 / BESIDE.as_secs_f64();
    figure("updates of the other resource then", rate, "/s", "");
    let median = deliveries.percentile(0.5);
    figure("their write to delivery p50", median, "ms", "");
    let worst = deliveries.percentile(1.0);
    figure("worst, above it", worst - median, "ms", "< 50");
    noise(used.other_cores);
}

/// Follows the resource over any number of connections. Returns the time of its end.
async fn follow(
    client: Arc<Client>,
    collection: String,
    from: u64,
    counts: Arc<Counts>,
) -> Instant {
    let mut at = from;
    loop {
        let path = format!(
            "{collection}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={at}"
        );
        let Ok(mut lines) = client.lines(Call::get(&path)).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if !lines.status.is_success() {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let seconds = lines
                .headers
                .get("retry-after")
                .and_then(|value| value.to_str().ok());
            let seconds = seconds
                .and_then(|text| text.parse().ok())
                .map(Duration::from_secs);
            tokio::time::sleep(seconds.unwrap_or(PAUSE)).await;
            continue;
        }
        while let Ok(Some(line)) = lines.next().await {
            let event: Value = serde_json::from_slice(&line).unwrap();
            if event["type"] == "ERROR" {
                counts
                    .expired
                    .fetch_add(u64::from(event["object"]["code"] == 410), Ordering::Relaxed);
                break;
            }
            at = version(&event["object"]);
            let end = counts.end.load(Ordering::SeqCst);
            if end != 0 && at >= end {
                return Instant::now();
            }
            // The update may arrive before its writer has the response.
            if event["object"]["metadata"]["annotations"]["stamp"] == "1" {
                return Instant::now();
            }
        }
    }
}

/// How long updates of the other resource continue while the watches resume.
const BESIDE: Duration = Duration::from_secs(3);
/// The time between two updates of each of its writers.
const EVERY: Duration = Duration::from_millis(8);

/// Updates secrets 2,000 times a second. Returns the durations until a watch has received them.
async fn deliveries(target: Target) -> Durations {
    let begun = Instant::now();
    let client = target.client_over(Protocol::Http2);
    let list = client.call(Call::get(&secrets())).await.expect(200);
    let path = format!(
        "{}?watch=true&resourceVersion={}",
        secrets(),
        version(&list)
    );
    let mut lines = client.watch(&path).await;
    let writing = (0..WRITERS).map(|number| {
        let client = target.client_over(Protocol::Http2);
        async move {
            let mut ticks = tokio::time::interval(EVERY);
            while begun.elapsed() < BESIDE {
                ticks.tick().await;
                let sent = begun.elapsed().as_micros().to_string();
                let one = format!("{}/{}", secrets(), load::name(number));
                let call = Call::put(&one, &secret(number, &sent));
                client.call(call).await.expect(200);
            }
        }
    });
    let writing = tokio::spawn(join_all(writing.collect::<Vec<_>>()));
    let mut times = Durations::default();
    // The last ones are received while nothing else is written.
    while let Ok(Ok(Some(line))) = tokio::time::timeout(BESIDE / 2, lines.next()).await {
        let event: Value = serde_json::from_slice(&line).unwrap();
        let sent = event["object"]["metadata"]["annotations"]["stamp"].as_str();
        let sent: u64 = sent.unwrap().parse().unwrap();
        times.add(begun.elapsed().saturating_sub(Duration::from_micros(sent)));
    }
    writing.await.unwrap();
    times
}

/// Returns the collection of the other resource.
fn secrets() -> String {
    format!("/api/v1/namespaces/{}/secrets", load::NAMESPACE)
}

/// The number of writers of the other resource. Each has an object of its own.
const WRITERS: u64 = 16;

/// Returns the object of one writer.
fn secret(number: u64, stamp: &str) -> Value {
    json!({
        "metadata": { "name": load::name(number), "annotations": { "stamp": stamp } },
        "stringData": { "filler": "x".repeat(700) },
    })
}

/// Updates secrets at full speed for `time`. Returns the number of updates.
async fn write_secrets(daemon: &Daemon, time: Duration) -> u64 {
    let until = Instant::now() + time;
    let writers = (0..WRITERS).map(|number| {
        let client = daemon.target().client_over(Protocol::Http2);
        async move {
            let call = Call::post(&secrets(), &secret(number, "0"));
            client.call(call).await.expect(201);
            let one = format!("{}/{}", secrets(), load::name(number));
            let mut written = 0_u64;
            while Instant::now() < until {
                let call = Call::put(&one, &secret(number, &written.to_string()));
                client.call(call).await.expect(200);
                written += 1;
            }
            written
        }
    });
    join_all(writers).await.into_iter().sum()
}
