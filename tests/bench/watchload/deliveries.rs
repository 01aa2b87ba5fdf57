//! Watches and updates, by the tool alone.

use crate::below;

use super::goals::{self, Goal};
use super::{Set, median};

pub async fn http2(set: &Set) {
    let steps = [
        (5_000, goals::FANOUT_CPU, goals::FANOUT_MEMORY),
        (10_000, goals::FANOUT_CPU_10000, goals::FANOUT_MEMORY_10000),
    ];
    for (watchers, cpu, memory) in steps {
        let of = format!("{watchers} over HTTP/2, 20/s");
        let daemon = below::daemon().await;
        let arguments = format!("--watchers {watchers} --rate 20");
        let report = set.run(&daemon, "fanout", &arguments).await;
        let other = report.get("other_cores");
        let used = report.get("server_cpu_s_per_1m_deliveries");
        set.table.add(&of, cpu, used, other);
        if watchers == 5_000 {
            let p99 = report.get("delivery_p99_ms");
            set.table.add(&of, goals::FANOUT_P99, p99, other);
        }
        let each = report.get("rss_kib_per_idle_watch");
        set.table.add(&of, memory, each, other);
        set.sound(&of, &report, 20.0);
    }
}

pub async fn one_stream(set: &Set) {
    let of = "5000 over HTTP/2, 1 stream each, 20/s";
    let goals = [
        goals::ONE_STREAM_CPU,
        goals::ONE_STREAM_MEMORY,
        goals::ONE_STREAM_RATE,
    ];
    alone(set, of, "--streams 1", goals).await;
}

pub async fn http1(set: &Set) {
    let of = "5000 over HTTP/1.1, 20/s";
    let goals = [goals::HTTP1_CPU, goals::HTTP1_MEMORY, goals::HTTP1_RATE];
    alone(set, of, "--http1", goals).await;
}

/// Watches with a connection each.
async fn alone(set: &Set, of: &str, flags: &str, [cpu, memory, rate]: [Goal; 3]) {
    let daemon = below::daemon().await;
    let arguments = format!("--watchers 5000 --rate 20 {flags}");
    let report = set.run(&daemon, "fanout", &arguments).await;
    let other = report.get("other_cores");
    let used = report.get("server_cpu_s_per_1m_deliveries");
    set.table.add(of, cpu, used, other);
    let each = report.get("rss_kib_per_idle_watch");
    set.table.add(of, memory, each, other);
    set.table.add(of, rate, report.get("updates_per_s"), other);
    set.sound(of, &report, 0.0);
}

/// With a rate that nothing reaches: each writer goes on as soon as it has its answer.
pub async fn saturation(set: &Set) {
    let of = "5000 over HTTP/2, as fast as it goes";
    let daemon = below::daemon().await;
    let load = "--watchers 5000 --threads 2 --objects 20 --writers 20 --rate 100000";
    let report = set.run(&daemon, "fanout", load).await;
    let rate = report.get("deliveries_per_s");
    set.table
        .add(of, goals::SATURATION, rate, report.get("other_cores"));
    set.sound(of, &report, 0.0);
}

/// The pods and the nodes are as many for few watchers as for many, and one watcher sees each
/// update: nothing but the number of watchers differs.
pub async fn selective(set: &Set) {
    for rate in [20, 100, 1_000] {
        // What one of them costs is a matter of few ticks of the clock: turn by turn, to be fair.
        let mut cost = [Vec::new(), Vec::new()];
        let mut other = 0.0_f64;
        for _ in 0..set.rounds.min(3) {
            for (watchers, cost) in [1_000, 10_000].into_iter().zip(&mut cost) {
                let of = format!("{watchers} selective, {rate}/s");
                let daemon = below::daemon().await;
                let load = format!(
                    "--watchers {watchers} --pods 10000 --nodes {watchers} --rate {rate} \
                     --writers 16"
                );
                let report = set.run(&daemon, "selective", &load).await;
                other = other.max(report.get("other_cores"));
                cost.push(report.get("server_cpu_ms_per_update"));
                set.sound(&of, &report, f64::from(rate));
            }
        }
        let [few, many] = cost.map(median);
        for (watchers, cost) in [(1_000, few), (10_000, many)] {
            let of = format!("{watchers} selective, {rate}/s");
            set.table.add(&of, goals::SELECTIVE_CPU, cost, other);
        }
        let of = format!("selective, {rate}/s");
        set.table.add(&of, goals::SELECTIVE_FLAT, many / few, other);
    }
}

pub async fn idle(set: &Set) {
    let of = "50000 over HTTP/2, 1/s";
    let daemon = below::daemon().await;
    let load = "--watchers 50000 --threads 2 --rate 1";
    let report = set.run(&daemon, "fanout", load).await;
    let other = report.get("other_cores");
    let opened = report.get("open_ms") / 1e3;
    set.table.add(of, goals::IDLE_OPENED, opened, other);
    let peak = report
        .get("writes.rss_peak_mib")
        .max(report.get("open.rss_mib"));
    set.table.add(of, goals::IDLE_MEMORY, peak, other);
    set.sound(of, &report, 1.0);
}
