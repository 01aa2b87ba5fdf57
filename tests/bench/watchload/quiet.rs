//! Measures watchers without matching events, while the ring wraps many times.

use futures_util::FutureExt;
use serde_json::json;

use crate::daemons::{self, Measured};
use crate::harness::streams::{Connection, Stream};
use crate::harness::{Call, Daemon};

use super::tool::Report;
use super::{Suite, goals, median};

const QUIET: usize = 10_000;
const STREAMS: usize = 50;
const RING_BYTES: u64 = 512 << 10;
const RATE: f64 = 1_000.0;
/// The initial window of HTTP/2.
const WINDOW: u32 = 65_535;

pub async fn measure(suite: &Suite) {
    let of = "10000 quiet, 1000/s for others";
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut reads, mut ended, mut other) = (0.0, 0.0, 0.0_f64);
    let mut wraps = f64::MAX;
    for _ in 0..suite.rounds.min(3) {
        let daemon = start().await;
        let report = busy(suite, &daemon).await;
        without.push(report.get("server_cpu_ms_per_update"));
        println!(
            "  without quiet ones: {} reads of history",
            history_reads(&daemon, "pods").await
        );
        drop(daemon);

        let daemon = start().await;
        let mut quiet = open(&daemon).await;
        let report = busy(suite, &daemon).await;
        with.push(report.get("server_cpu_ms_per_update"));
        other = other.max(report.get("other_cores"));
        wraps =
            wraps.min(report.get("updates") * report.get("bytes_per_delivery") / RING_BYTES as f64);
        reads += history_reads(&daemon, "pods").await;
        ended += disturbed(&daemon, &mut quiet).await as f64;
        suite.sound(of, &report, RATE);
    }
    println!("  ms for an update without {without:.3?}, with {with:.3?}");
    suite.table.add(of, goals::QUIET_WRAPS, wraps, other);
    suite.table.add(of, goals::QUIET_READS, reads, other);
    suite.table.add(of, goals::QUIET_ENDED, ended, other);
    let ratio = median(with) / median(without);
    suite.table.add(of, goals::QUIET_CPU, ratio, other);
}

async fn start() -> Measured {
    daemons::with(&["--watch-ring-bytes", &RING_BYTES.to_string()]).await
}

/// Updates pods that no quiet watcher sees.
async fn busy(suite: &Suite, daemon: &Daemon) -> Report {
    let load = format!("--watchers 1 --nodes 100 --pods 100 --writers 16 --rate {RATE}");
    suite.run(daemon, "selective", &load).await
}

fn node(number: usize) -> String {
    format!("quiet-{number:05}")
}

async fn open(daemon: &Daemon) -> Vec<(Connection, Vec<Stream>)> {
    let mut all = Vec::new();
    for first in (0..QUIET).step_by(STREAMS) {
        let connection = Connection::open(&daemon.target(), WINDOW).await.unwrap();
        let mut streams = Vec::new();
        for number in first..first + STREAMS {
            let path = format!(
                "/api/v1/pods?watch=true&timeoutSeconds=3600&fieldSelector=spec.nodeName%3D{}",
                node(number)
            );
            streams.push(connection.watch(&path).await.unwrap());
        }
        all.push((connection, streams));
    }
    all
}

/// Returns the number of watches that ended, got a wrong event, or missed their event.
async fn disturbed(daemon: &Daemon, quiet: &mut [(Connection, Vec<Stream>)]) -> usize {
    let streams = quiet.iter_mut().flat_map(|(_, streams)| streams);
    let mut disturbed = streams
        .filter_map(|stream| stream.line().now_or_never())
        .count();
    let client = daemon.client();
    // One watch of each connection.
    for (number, (_, streams)) in quiet.iter_mut().enumerate() {
        let node = node(number * STREAMS);
        let pod = json!({
            "metadata": { "name": node },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
        });
        let call = Call::post("/api/v1/namespaces/default/pods", &pod);
        client.call(call).await.expect(201);
        let event = tokio::time::timeout(std::time::Duration::from_secs(10), streams[0].event());
        let got = matches!(
            event.await,
            Ok(Ok(Some(event))) if event["object"]["spec"]["nodeName"] == node.as_str()
        );
        disturbed += usize::from(!got);
    }
    disturbed
}

/// Returns the number of chunks of history that watches of a resource read.
pub async fn history_reads(daemon: &Daemon, resource: &str) -> f64 {
    let label = format!("resource=\"{resource}\"");
    let page = daemon.client().call(Call::get("/metrics")).await.text();
    let lines = page.lines().filter(|line| {
        line.starts_with("taffrail_watch_history_reads_total") && line.contains(&label)
    });
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
