//! Measures lists, streaming lists and contended writes, and lists during fan-out.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::daemons;
use crate::harness::{Call, Client};

use super::{Suite, goals, median};

const LIST_OBJECTS: &str = "--objects 5000 --payload 2048";
/// Lists per second during fan-out.
const LISTS_RATE: f64 = 20.0;
const LISTERS: usize = 4;

pub async fn lists(suite: &Suite) {
    let of = "lists of 5000 x 2 KiB, 4 clients";
    let daemon = daemons::daemon().await;
    let load = format!("{LIST_OBJECTS} --modes rv0,rvunset");
    let report = suite.run(&daemon, "list", &load).await;
    let modes = [("rv0", goals::LIST_RV0), ("rvunset", goals::LIST_NEWEST)];
    for (mode, goal) in modes {
        let each = report.get(&format!("{mode}.server_cpu_ms_each"));
        let other = report.get(&format!("{mode}.other_cores"));
        suite.table.add(&format!("{of}, {mode}"), goal, each, other);
    }
    // A new daemon, because memory that earlier lists left would count as resident before.
    let daemon = daemons::daemon().await;
    let load = format!("{LIST_OBJECTS} --modes rv0 --listers 10");
    let report = suite.run(&daemon, "list", &load).await;
    let growth = report.get("rv0.rss_peak_mib") - report.get("rv0.before.rss_mib");
    let other = report.get("rv0.other_cores");
    suite
        .table
        .add("ten such lists at once", goals::LISTS_MEMORY, growth, other);
    drop(daemon);
    beside_fanout(suite).await;
}

async fn beside_fanout(suite: &Suite) {
    let of = "5000 over HTTP/2 with 20 such lists/s";
    let daemon = daemons::daemon().await;
    let once = format!("{LIST_OBJECTS} --modes rv0 --duration 0.1 --namespace listed --keep");
    suite.tool.run(&daemon, "list", &once).await;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut other = 0.0_f64;
    for _ in 0..suite.rounds {
        let load = "--watchers 5000 --rate 20";
        let report = suite.run(&daemon, "fanout", load).await;
        without.push(report.get("delivery_p99_ms"));
        suite.sound(of, &report, 20.0);
        other = other.max(report.get("other_cores"));

        let (stop, stopped) = watch::channel(false);
        let clients = (0..LISTERS).map(|number| {
            let listing = list(daemon.client(), number, stopped.clone());
            tokio::spawn(listing)
        });
        let clients: Vec<_> = clients.collect();
        let begun = Instant::now();
        let report = suite.run(&daemon, "fanout", load).await;
        let time = begun.elapsed().as_secs_f64();
        stop.send_replace(true);
        let lists: u64 = join_all(clients)
            .await
            .into_iter()
            .map(Result::unwrap)
            .sum();
        with.push(report.get("delivery_p99_ms"));
        // The tool reports only the watches, so the lists are counted here.
        suite.table.add(of, goals::WRONG, report.wrong(), other);
        suite
            .table
            .add(of, goals::LISTS_REACHED, lists as f64 / time, other);
    }
    println!("  p99 without lists {without:.1?}, with {with:.1?}");
    let ratio = median(with) / median(without);
    suite.table.add(of, goals::LISTS_BESIDE, ratio, other);
}

/// Lists at a fixed rate until stopped. Returns the number of lists.
async fn list(client: Client, number: usize, mut stopped: watch::Receiver<bool>) -> u64 {
    let path = "/api/v1/namespaces/listed/configmaps?resourceVersion=0";
    let begun = Instant::now();
    let mut count = 0;
    loop {
        let turn = count as f64 * LISTERS as f64 + number as f64;
        let due = begun + Duration::from_secs_f64(turn / LISTS_RATE);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return count,
        }
        let lines = client.lines(Call::get(path)).await.unwrap();
        assert_eq!(lines.status, 200);
        let bytes = lines.whole().await.unwrap().len();
        assert!(bytes > 10_000_000, "a list of {bytes} bytes");
        count += 1;
    }
}

pub async fn informers(suite: &Suite) {
    let of = "200 clients on 2000 objects";
    let scenarios = [
        ("watchlist", goals::WATCHLIST_CPU, goals::WATCHLIST_MEMORY),
        ("relist", goals::RELIST_CPU, goals::RELIST_MEMORY),
    ];
    for (scenario, cpu, memory) in scenarios {
        let daemon = daemons::daemon().await;
        let load = "--clients 200 --objects 2000 --payload 1024";
        let report = suite.tool.run(&daemon, scenario, load).await;
        let of = format!("{of}, {scenario}");
        let other = report.get("other_cores");
        let each = report.get("server_cpu_ms_per_client");
        suite.table.add(&of, cpu, each, other);
        let growth = report.get("rss_peak_mib") - report.get("before.rss_mib");
        suite.table.add(&of, memory, growth, other);
        let mut wrong = report.get("clients_failed");
        if scenario == "watchlist" {
            wrong += report.get("events_missing").abs();
        }
        suite.table.add(&of, goals::WRONG, wrong, other);
    }
}

pub async fn contended(suite: &Suite) {
    for (writers, embedded) in [(16, goals::CONTENDED), (64, goals::CHAINED)] {
        let of = format!("{writers} writers of one object");
        let goal = match daemons::version().is_some() {
            true => goals::CONTENDED,
            false => embedded,
        };
        let daemon = daemons::daemon().await;
        let arguments = format!("--ops contended --writers {writers}");
        let report = suite.run(&daemon, "write", &arguments).await;
        let other = report.get("contended.other_cores");
        let rate = report.get("contended.ops_per_s");
        suite.table.add(&of, goal, rate, other);
        let errors = report.errors("contended.");
        suite.table.add(&of, goals::CONFLICTS, errors, other);
    }
}
