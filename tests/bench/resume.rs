//! A kill of the daemon with thousands of watches. All of them resume at once, from before the
//! revision at which the caches are filled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Call, Client, Daemon, Protocol, version};
use crate::load::{self, STREAMS};
use crate::meter::Sample;
use crate::report::{Durations, figure, noise, part};

/// The wait of a client before it reconnects, unless the server asks for another one.
const PAUSE: Duration = Duration::from_millis(20);

/// The counts of all watches.
#[derive(Default)]
struct Counts {
    refused: AtomicU64,
    expired: AtomicU64,
    /// The version that ends the run, or 0 until it is known.
    end: AtomicU64,
}

/// Kills the daemon while this many clients watch a quiet resource and another resource changes at
/// full speed. Waits until all watches have caught up.
pub async fn measure(watchers: usize, time: Duration) {
    part(&format!(
        "{watchers} watches over HTTP/2, resumed after kill -9 beside writes to another resource"
    ));
    let mut daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let created = daemon
        .client()
        .call(Call::post(&load::collection(), &load::object(0, "0")))
        .await;
    let from = version(&created.expect(201));
    let counts = Arc::new(Counts::default());
    let watching: Vec<_> = (0..watchers.div_ceil(STREAMS))
        .flat_map(|_| {
            let client = Arc::new(daemon.client());
            (0..STREAMS).map(move |_| Arc::clone(&client))
        })
        .take(watchers)
        .map(|client| tokio::spawn(follow(client, from, Arc::clone(&counts))))
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
    let path = format!("{}/{}", load::collection(), load::name(0));
    let updated = daemon
        .client()
        .call(Call::put(&path, &load::object(0, "1")))
        .await;
    let end = version(&updated.expect(200));
    counts.end.store(end, Ordering::SeqCst);
    let mut caught_up = Durations::default();
    for watcher in watching {
        let at: Instant = watcher.await.unwrap();
        caught_up.add(at.saturating_duration_since(ready));
    }
    let used = start.until(&Sample::take(daemon.pid()));
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
        "< 2",
    );
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst) as f64;
    figure(
        "told that their version is gone (410)",
        count(&counts.expired),
        "",
        "0",
    );
    figure("told to come again later", count(&counts.refused), "", "");
    figure("CPU of the daemon", used.daemon, "s", "");
    noise(used.other_cores);
}

/// Follows the resource over any number of connections, and returns the moment of its end.
async fn follow(client: Arc<Client>, from: u64, counts: Arc<Counts>) -> Instant {
    let mut at = from;
    loop {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={at}",
            load::collection()
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
            let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
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
            // The update may arrive before its writer has the answer.
            if event["object"]["data"]["stamp"] == "1" {
                return Instant::now();
            }
        }
    }
}

/// Updates secrets for `time`, and returns the number of updates.
async fn write_secrets(daemon: &Daemon, time: Duration) -> u64 {
    let until = Instant::now() + time;
    let path = format!("/api/v1/namespaces/{}/secrets", load::NAMESPACE);
    let writers = (0..16).map(|number| {
        let client = daemon.target().client_over(Protocol::Http2);
        let path = path.clone();
        async move {
            let mut object = load::object(number, "0");
            object["stringData"] = json!({});
            object.as_object_mut().unwrap().remove("data");
            let filler = "x".repeat(700);
            client.call(Call::post(&path, &object)).await.expect(201);
            let mut written = 0;
            while Instant::now() < until {
                object["stringData"] = json!({ "stamp": written.to_string(), "filler": filler });
                let one = format!("{path}/{}", load::name(number));
                client.call(Call::put(&one, &object)).await.expect(200);
                written += 1;
            }
            written
        }
    });
    join_all(writers).await.into_iter().sum()
}
