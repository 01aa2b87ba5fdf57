//! Watches and updates that the external tool makes alone.

use crate::daemons;

use super::goals::{self, Goal};
use super::{Suite, median};

pub async fn http2(suite: &Suite) {
    let steps = [
        (5_000, goals::FANOUT_CPU, goals::FANOUT_MEMORY),
        (10_000, goals::FANOUT_CPU_10000, goals::FANOUT_MEMORY_10000),
    ];
    for (watchers, cpu, memory) in steps {
        let of = format!("{watchers} over HTTP/2, 20/s");
        let daemon = daemons::daemon().await;
        let arguments = format!("--watchers {watchers} --rate 20");
        let report = suite.run(&daemon, "fanout", &arguments).await;
        let other = report.get("other_cores");
        let used = report.get("server_cpu_s_per_1m_deliveries");
        suite.table.add(&of, cpu, used, other);
        if watchers == 5_000 {
            let p99 = report.get("delivery_p99_ms");
            suite.table.add(&of, goals::FANOUT_P99, p99, other);
        }
        let each = report.get("rss_kib_per_idle_watch");
        suite.table.add(&of, memory, each, other);
        suite.sound(&of, &report, 20.0);
    }
}

pub async fn one_stream(suite: &Suite) {
    let of = "5000 over HTTP/2, 1 stream each, 20/s";
    let goals = [
        goals::ONE_STREAM_CPU,
        goals::ONE_STREAM_MEMORY,
        goals::ONE_STREAM_RATE,
    ];
    alone(suite, of, "--streams 1", goals).await;
}

pub async fn http1(suite: &Suite) {
    let of = "5000 over HTTP/1.1, 20/s";
    let goals = [goals::HTTP1_CPU, goals::HTTP1_MEMORY, goals::HTTP1_RATE];
    alone(suite, of, "--http1", goals).await;
}

/// Measures watches that each have a connection of their own.
async fn alone(suite: &Suite, of: &str, flags: &str, [cpu, memory, rate]: [Goal; 3]) {
    let daemon = daemons::daemon().await;
    let arguments = format!("--watchers 5000 --rate 20 {flags}");
    let report = suite.run(&daemon, "fanout", &arguments).await;
    let other = report.get("other_cores");
    let used = report.get("server_cpu_s_per_1m_deliveries");
    suite.table.add(of, cpu, used, other);
    let each = report.get("rss_kib_per_idle_watch");
    suite.table.add(of, memory, each, other);
    suite
        .table
        .add(of, rate, report.get("updates_per_s"), other);
    suite.sound(of, &report, 0.0);
}

/// Measures saturation. The rate is unreachable, so each writer continues as soon as it has its
/// response.
pub async fn saturation(suite: &Suite) {
    let of = "5000 over HTTP/2, as fast as it goes";
    let daemon = daemons::daemon().await;
    let load = "--watchers 5000 --threads 2 --objects 20 --writers 20 --rate 100000";
    let report = suite.run(&daemon, "fanout", load).await;
    let rate = report.get("deliveries_per_s");
    suite
        .table
        .add(of, goals::SATURATION, rate, report.get("other_cores"));
    suite.sound(of, &report, 0.0);
}

/// Measures the cost of an update that one watcher sees, with few and with many watchers. Only the
/// number of watchers differs.
pub async fn selective(suite: &Suite) {
    for rate in [20, 100, 1_000] {
        // The cost is only a few clock ticks, so the runs alternate.
        let mut cost = [Vec::new(), Vec::new()];
        let mut other = 0.0_f64;
        for _ in 0..suite.rounds.min(3) {
            for (watchers, cost) in [1_000, 10_000].into_iter().zip(&mut cost) {
                let of = format!("{watchers} selective, {rate}/s");
                let daemon = daemons::daemon().await;
                let load = format!(
                    "--watchers {watchers} --pods 10000 --nodes {watchers} --rate {rate} \
                     --writers 16"
                );
                let report = suite.run(&daemon, "selective", &load).await;
                other = other.max(report.get("other_cores"));
                cost.push(report.get("server_cpu_ms_per_update"));
                suite.sound(&of, &report, f64::from(rate));
            }
        }
        let [few, many] = cost.map(median);
        for (watchers, cost) in [(1_000, few), (10_000, many)] {
            let of = format!("{watchers} selective, {rate}/s");
            suite.table.add(&of, goals::SELECTIVE_CPU, cost, other);
        }
        let of = format!("selective, {rate}/s");
        suite
            .table
            .add(&of, goals::SELECTIVE_FLAT, many / few, other);
    }
}

pub async fn idle(suite: &Suite) {
    let of = "50000 over HTTP/2, 1/s";
    let daemon = daemons::daemon().await;
    let load = "--watchers 50000 --threads 2 --rate 1";
    let report = suite.run(&daemon, "fanout", load).await;
    let other = report.get("other_cores");
    let opened = report.get("open_ms") / 1e3;
    suite.table.add(of, goals::IDLE_OPENED, opened, other);
    let peak = report
        .get("writes.rss_peak_mib")
        .max(report.get("open.rss_mib"));
    suite.table.add(of, goals::IDLE_MEMORY, peak, other);
    suite.sound(of, &report, 1.0);
}
