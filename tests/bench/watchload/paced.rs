//! A paced writer and its watchers, for loads that the external tool cannot make.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::fanout::number_after;
use crate::harness::streams::Stream;
use crate::harness::{Call, Daemon, version};
use crate::load::{NAMESPACE, collection};
use crate::report::Durations;

/// The number of writers, each with an object of its own.
pub const WRITERS: u64 = 16;
const VALUE_BYTES: usize = 4 << 10;
/// The object whose creation ends a run.
const END: &str = "end";

/// The record of one watcher up to the end.
#[derive(Default)]
pub struct WatchResult {
    pub events: u64,
    /// The number of events that were not newer than the one before.
    pub wrong: u64,
    pub latency: Durations,
}

fn name(number: u64) -> String {
    format!("cm-{number:06}")
}

/// Returns an object with a stamp that the tool's watchers understand: the time, the object's
/// number, and the number of the update.
fn object(number: u64, sent: u128, update: u64) -> serde_json::Value {
    json!({
        "metadata": { "name": name(number) },
        "data": {
            "at": format!("@wl:{sent:020}:{number:06}:{update:08}"),
            "filler": "x".repeat(VALUE_BYTES),
        },
    })
}

/// Creates the objects that [`write`] updates, as the tool would.
pub async fn create(daemon: &Daemon) {
    crate::load::namespace(daemon).await;
    let client = daemon.client();
    for number in 0..WRITERS {
        let call = Call::post(&collection(), &object(number, 0, 0));
        client.call(call).await.expect(201);
    }
}

/// Returns the version from which watches are to start.
pub async fn newest(daemon: &Daemon) -> u64 {
    let path = format!("{}?limit=1", collection());
    version(&daemon.client().call(Call::get(&path)).await.expect(200))
}

/// Updates at a fixed rate, then writes the end. Returns the number of updates and their rate.
pub async fn write(daemon: &Daemon, origin: Instant, rate: f64, time: Duration) -> (u64, f64) {
    let begun = Instant::now();
    let writers = (0..WRITERS).map(|number| {
        let client = daemon.client();
        tokio::spawn(async move {
            let path = format!("{}/{}", collection(), name(number));
            let mut count = 0;
            loop {
                let turn = (count * WRITERS + number) as f64;
                let due = Duration::from_secs_f64(turn / rate);
                if due >= time || begun.elapsed() >= time {
                    return count;
                }
                tokio::time::sleep_until((begun + due).into()).await;
                count += 1;
                // The tool has made the first update of one of these objects.
                let body = object(number, origin.elapsed().as_nanos(), count + 1);
                client.call(Call::put(&path, &body)).await.expect(200);
            }
        })
    });
    let counts = join_all(writers).await;
    let total: u64 = counts.into_iter().map(Result::unwrap).sum();
    let reached = total as f64 / begun.elapsed().as_secs_f64();
    let end = json!({ "metadata": { "name": END, "namespace": NAMESPACE } });
    let call = Call::post(&collection(), &end);
    daemon.client().call(call).await.expect(201);
    (total, reached)
}

/// Reads up to the end of a run or of the stream.
pub async fn follow(stream: &mut Stream, origin: Instant, from: u64) -> WatchResult {
    let mut result = WatchResult::default();
    let mut last = from;
    while let Ok(Some(line)) = stream.line().await {
        let now = origin.elapsed();
        let version = number_after(&line, "\"resourceVersion\":\"").unwrap_or(0);
        result.wrong += u64::from(version <= last);
        last = version;
        let Some(sent) = number_after(&line, "@wl:") else {
            break;
        };
        result.events += 1;
        result
            .latency
            .add(now.saturating_sub(Duration::from_nanos(sent)));
    }
    result
}
