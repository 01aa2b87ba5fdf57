//! Measures watchers that read while others do not: those of a stopped process, and streams whose
//! window never opens, on the connections of reading watchers.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};

use crate::daemons;
use crate::harness::streams::{Connection, Stream};
use crate::harness::{Call, Daemon};
use crate::load::{NAMESPACE, collection};
use crate::meter::{Sample, peak, reset_peak};
use crate::report::Durations;

use super::paced::{self, WatchResult};
use super::quiet::history_reads;
use super::tool::Running;
use super::{Suite, goals, median, percentiles};

const RATE: f64 = 500.0;
const RING: &str = "32MiB";
const CONNECTIONS: usize = 10;
/// The reading streams per connection. If streams stop reading, as many of them are added.
const STREAMS: usize = 10;
const STOPPED: usize = CONNECTIONS * STREAMS;
/// A few events of 4 KiB, so that unread streams leave the connection's window to the others.
const WINDOW: u32 = 16 << 10;
/// How long a process stays stopped in the last round, as a multiple of the duration of a run.
const STOP_RUNS: u32 = 3;
/// The time limits for the tool to start, and to catch up.
const TOOL_START: Duration = Duration::from_secs(15);
const TOOL_CATCHES_UP: Duration = Duration::from_secs(90);

/// The watchers that do not read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Nobody,
    Process,
    Streams,
}

/// The result of a run.
struct Outcome {
    p50: f64,
    p99: f64,
    /// The growth of memory up to the last delivery to readers, and up to the last delivery to the
    /// others.
    growth: f64,
    growth_after: f64,
    history_reads: f64,
    /// The faults of the readers.
    wrong: f64,
    /// The faults of the stopped watchers, after they continued.
    missing: f64,
    reached: f64,
    other_cores: f64,
}

pub async fn measure(suite: &Suite) {
    let kinds = [
        (Stopped::Nobody, "100 of 4 KiB, 500/s"),
        (Stopped::Process, "with 100 of a stopped process"),
        (Stopped::Streams, "with 100 streams without window"),
    ];
    let mut outcomes = kinds.map(|_| Vec::new());
    for round in 1..=suite.rounds {
        for ((stopped, of), outcomes) in kinds.into_iter().zip(&mut outcomes) {
            let outcome = run(suite, stopped, round == suite.rounds).await;
            println!(
                "  {of}: p50 {:.1} ms, p99 {:.1} ms, {:.0}/s, {:.1} MiB more, {:.1} when all went \
                 on, {} chunks of history, {:.1} other cores",
                outcome.p50,
                outcome.p99,
                outcome.reached,
                outcome.growth,
                outcome.growth_after,
                outcome.history_reads,
                outcome.other_cores
            );
            outcomes.push(outcome);
        }
    }
    let medians = |outcomes: &[Outcome]| {
        let p50 = median(outcomes.iter().map(|outcome| outcome.p50).collect());
        let p99 = median(outcomes.iter().map(|outcome| outcome.p99).collect());
        (p50, p99)
    };
    let alone = medians(&outcomes[0]);
    for ((stopped, of), outcomes) in kinds.into_iter().zip(&outcomes) {
        let most = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
        let other = most(|outcome| outcome.other_cores);
        if stopped != Stopped::Nobody {
            let (p50, p99) = medians(outcomes);
            suite
                .table
                .add(of, goals::STOPPED_P50, p50 / alone.0, other);
            suite
                .table
                .add(of, goals::STOPPED_P99, p99 / alone.1, other);
            let missing = most(|outcome| outcome.missing);
            suite.table.add(of, goals::STOPPED_MISSING, missing, other);
        }
        let growth = most(|outcome| outcome.growth);
        suite.table.add(of, goals::STOPPED_MEMORY, growth, other);
        let growth = most(|outcome| outcome.growth_after);
        if stopped != Stopped::Nobody {
            suite.table.add(of, goals::GOING_ON_MEMORY, growth, other);
        }
        let wrong = most(|outcome| outcome.wrong);
        suite.table.add(of, goals::WRONG, wrong, other);
        let reached = outcomes.iter().map(|outcome| outcome.reached);
        suite.reached(of, reached.fold(f64::MAX, f64::min), RATE, other);
    }
}

/// Runs once on a separate daemon. In the last run the stopped watchers continue.
async fn run(suite: &Suite, stopped: Stopped, last: bool) -> Outcome {
    let daemon = daemons::with(&["--watch-ring-bytes", RING]).await;
    let stop = match stopped {
        Stopped::Process if last => suite.time * STOP_RUNS,
        _ => suite.time,
    };
    let tool = if stopped == Stopped::Process {
        Some(stop_tool(suite, &daemon, stop).await)
    } else {
        paced::create(&daemon).await;
        None
    };
    let stopped_at = Instant::now();
    let from = paced::newest(&daemon).await;
    let path = format!("{}?watch=true&resourceVersion={from}", collection());
    let (mut connections, mut fast, mut shut) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let connection = Connection::open(&daemon.target(), WINDOW).await.unwrap();
        for _ in 0..STREAMS {
            if stopped == Stopped::Streams {
                shut.push(connection.watch(&path).await.unwrap());
            }
            fast.push(connection.watch(&path).await.unwrap());
        }
        connections.push(connection);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    reset_peak(daemon.pid());
    let before = daemon.resident();
    let start = Sample::take(daemon.pid());
    let origin = Instant::now();
    let following = fast.into_iter().map(|stream| spawn(stream, origin, from));
    let following: Vec<_> = following.collect();
    // A process stays stopped a little longer than the writes take.
    let time = stop.saturating_sub(stopped_at.elapsed().min(stop / 2));
    let (count, reached) = paced::write(&daemon, origin, RATE, time).await;
    let (latency, wrong) = gather(following, count).await;
    let used = start.until(&Sample::take(daemon.pid()));
    let (p50, p99) = percentiles(latency);
    let growth = peak(daemon.pid()) - before;

    let mut missing = 0.0;
    if let Some(tool) = tool.filter(|_| last) {
        tokio::time::sleep(stop.saturating_sub(stopped_at.elapsed())).await;
        missing = go_on(tool, count).await;
    }
    if last && stopped == Stopped::Streams {
        let following = shut.into_iter().map(|stream| spawn(stream, origin, from));
        missing = gather(following.collect(), count).await.1;
    }
    Outcome {
        p50,
        p99,
        growth,
        growth_after: peak(daemon.pid()) - before,
        history_reads: history_reads(&daemon, "configmaps").await,
        wrong,
        missing,
        reached,
        other_cores: used.other_cores,
    }
}

/// Runs a reader. It returns the stream, so that the watch stays open while others read.
fn spawn(
    mut stream: Stream,
    origin: Instant,
    from: u64,
) -> tokio::task::JoinHandle<(WatchResult, Stream)> {
    tokio::spawn(async move { (paced::follow(&mut stream, origin, from).await, stream) })
}

/// Returns the record of all watchers, and the number of missed, repeated or misordered events.
async fn gather(
    following: Vec<tokio::task::JoinHandle<(WatchResult, Stream)>>,
    count: u64,
) -> (Durations, f64) {
    let (mut latency, mut wrong, mut streams) = (Durations::default(), 0, Vec::new());
    for result in join_all(following).await {
        let (result, stream) = result.unwrap();
        wrong += result.events.abs_diff(count) + result.wrong;
        latency.extend(result.latency);
        streams.push(stream);
    }
    (latency, wrong as f64)
}

/// Starts the tool with watches of the objects, and stops it when they are open. The tool creates
/// the objects and updates one of them at once. Its second update, long after all others, ends it.
async fn stop_tool(suite: &Suite, daemon: &Daemon, stop: Duration) -> Running {
    let second = (TOOL_START + stop + TOOL_CATCHES_UP).as_secs_f64();
    let arguments = format!(
        "--namespace {NAMESPACE} --keep --watchers {STOPPED} --objects {} --payload 4096 \
         --writers 1 --rate {} --duration {} --settle 1",
        paced::WRITERS,
        1.0 / second,
        second * 1.5
    );
    let tool = suite.tool.start(daemon, "fanout", &arguments);
    let client = daemon.client();
    let begun = Instant::now();
    while !updated(&client.call(Call::get(&collection())).await.text()) {
        assert!(begun.elapsed() < TOOL_START, "watchload does not begin");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // By then the tool's watches have the update too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    signal(&tool, Signal::STOP);
    tool
}

/// Whether a list contains an object after its first update.
fn updated(list: &str) -> bool {
    let stamps = list.split("@wl:").skip(1);
    stamps
        .filter_map(|stamp| stamp.get(28..36))
        .any(|update| update == "00000001")
}

fn signal(tool: &Running, signal: Signal) {
    let pid = Pid::from_raw(tool.pid().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Continues the tool. Returns the number of missed, repeated, misordered or refused events.
async fn go_on(tool: Running, count: u64) -> f64 {
    signal(&tool, Signal::CONT);
    let report = tool.report().await;
    let seen = report.get("delivered") + report.get("duplicate");
    // The tool's first update precedes the others. It does not wait for deliveries of its second.
    let least = (STOPPED as u64 * (count + 1)) as f64;
    let most = least + STOPPED as f64;
    let missing = (least - seen).max(0.0) + (seen - most).max(0.0);
    let refused = report.get("error_events") + report.get("watches_given_up");
    println!(
        "  the stopped process saw {seen} of {least} to {most}; {refused} refused, {} cut, {} \
         repeated",
        report.get("watches_closed"),
        report.repeated()
    );
    missing + refused + report.repeated()
}
