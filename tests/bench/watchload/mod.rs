//! The benchmarks of fan-out.
//!
//! This folder has the parts, their goals and the final table, which shows each figure with a limit
//! and kube-apiserver's own figure. The external program `watchload` makes the load and reads the
//! daemon's cost from /proc. Loads that it cannot make are made here: paced lists, and streams
//! whose window stays closed. This folder knows only the daemon's network interface, not its code.

mod deliveries;
mod goals;
mod paced;
mod quiet;
mod requests;
mod stopped;
mod table;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use crate::harness::Daemon;
use crate::report::{Durations, part};
use crate::startup;

use goals::{Goal, Limit};
use table::Table;
use tool::{Report, Watchload};

/// Each part, with its description in `--help`.
pub const PARTS: [(&str, &str); 12] = [
    (
        "fanout-http2",
        "5,000 and 10,000 watchers, 50 on each HTTP/2 connection",
    ),
    (
        "fanout-one-stream",
        "5,000 watchers, each on an HTTP/2 connection of its own",
    ),
    ("fanout-http1", "5,000 watchers over HTTP/1.1"),
    ("saturation", "as many deliveries as the machine can make"),
    (
        "selective",
        "1,000 and 10,000 watchers of one node's pods each",
    ),
    (
        "lists",
        "lists of 5,000 objects, ten at once, and with fan-out",
    ),
    (
        "informers",
        "200 clients that fill their caches at once, in both ways",
    ),
    ("contended", "16 and 64 writers that patch one object"),
    ("stopped", "100 watchers, and 100 that do not read"),
    ("quiet", "10,000 watchers without events, with a busy ring"),
    ("idle", "50,000 watches, one update a second"),
    ("cache-fill", "start with 100,000 objects, as startup-full"),
];

/// The tool, the table and the settings that all parts share.
struct Suite {
    tool: Watchload,
    table: Table,
    /// How long a run writes or lists.
    time: Duration,
    /// The number of alternating runs.
    rounds: usize,
}

/// Measures these parts and prints the table. Returns false after a fault. A missed goal alone is
/// not a fault.
pub async fn measure(parts: &[&'static str]) -> bool {
    let tool = match Watchload::find() {
        Ok(tool) => tool,
        Err(advice) => {
            println!("{advice}");
            return false;
        }
    };
    let suite = Arc::new(Suite {
        tool,
        table: Table::default(),
        time: Duration::from_secs_f64(setting("BENCH_SECONDS", 20.0)),
        rounds: setting("BENCH_ROUNDS", 5.0) as usize,
    });
    for name in parts {
        part(name);
        let running = suite.clone();
        let name = *name;
        // A panic of one part does not end the others.
        let ended = tokio::spawn(async move { one(&running, name).await }).await;
        if ended.is_err() {
            suite.table.broken(name);
        }
    }
    suite.table.print()
}

async fn one(suite: &Suite, name: &str) {
    match name {
        "fanout-http2" => deliveries::http2(suite).await,
        "fanout-one-stream" => deliveries::one_stream(suite).await,
        "fanout-http1" => deliveries::http1(suite).await,
        "saturation" => deliveries::saturation(suite).await,
        "selective" => deliveries::selective(suite).await,
        "lists" => requests::lists(suite).await,
        "informers" => requests::informers(suite).await,
        "contended" => requests::contended(suite).await,
        "stopped" => stopped::measure(suite).await,
        "quiet" => quiet::measure(suite).await,
        "idle" => deliveries::idle(suite).await,
        "cache-fill" => {
            let median = startup::full(100_000).await;
            suite
                .table
                .add("100,000 objects of 1 KiB", goals::FULL_START, median, 0.0);
        }
        other => unreachable!("{other}"),
    }
}

impl Suite {
    /// Runs a scenario with the common duration.
    async fn run(&self, daemon: &Daemon, scenario: &str, arguments: &str) -> Report {
        let seconds = self.time.as_secs_f64();
        let arguments = format!("{arguments} --duration {seconds}");
        self.tool.run(daemon, scenario, &arguments).await
    }

    /// Adds the rows of each run with watches, and one more if the run did not reach its load.
    fn sound(&self, of: &str, report: &Report, rate: f64) {
        let other = report.get("other_cores");
        self.table.add(of, goals::WRONG, report.wrong(), other);
        self.reached(of, report.get("updates_per_s"), rate, other);
    }

    fn reached(&self, of: &str, reached: f64, asked: f64, other_cores: f64) {
        let limit = Limit::AtLeast(asked * 0.95);
        if reached < asked * 0.95 {
            let goal = Goal {
                limit,
                ..goals::LOAD
            };
            self.table.add(of, goal, reached, other_cores);
        }
    }
}

fn setting(name: &str, default: f64) -> f64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .ok()
            .filter(|value| *value > 0.0)
            .unwrap_or_else(|| panic!("{name} is not a number above 0: {text}")),
        Err(_) => default,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns p50 and p99 in milliseconds.
fn percentiles(mut latency: Durations) -> (f64, f64) {
    (latency.percentile(0.5), latency.percentile(0.99))
}
