//! Measures durable writes over HTTPS.

use std::time::Duration;

use crate::harness::Daemon;
use crate::load::{self, Until, Verb, Written};
use crate::report::{figure, noise, part};

fn print(verb: &str, mut written: Written) {
    let rate = written.count as f64 / written.used.elapsed.as_secs_f64();
    figure(&format!("{verb}s a second"), rate, "/s", "");
    let cpu = written.used.daemon / written.count as f64 * 1e3;
    figure(&format!("CPU of the daemon for one {verb}"), cpu, "ms", "");
    figure(
        &format!("{verb} p50"),
        written.latency.percentile(0.5),
        "ms",
        "",
    );
    figure(
        &format!("{verb} p99"),
        written.latency.percentile(0.99),
        "ms",
        "",
    );
    figure(
        &format!("{verb} worst"),
        written.latency.percentile(1.0),
        "ms",
        "",
    );
    noise(written.used.other_cores);
}

/// Measures creates, then updates, with this many clients.
pub async fn measure(clients: u64, time: Duration) {
    part(&format!(
        "writes of 1 KiB, each durable, {clients} clients on connections of their own"
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let created = load::write(&daemon, Verb::Create, clients, 0, Until::Time(time)).await;
    let objects = created.count.min(10_000);
    print("create", created);
    let updated = load::write(&daemon, Verb::Update, clients, objects, Until::Time(time)).await;
    print("update", updated);
}

/// Measures updates while retention deletes history as fast as they come.
pub async fn under_retention(clients: u64, time: Duration) {
    part("the same updates while retention deletes history older than 10 s");
    let daemon = Daemon::with(&["--retention-age", "10s"]).await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, clients, 0, Until::Count(1_000)).await;
    // Long enough for retention to have something to delete.
    let warm = Until::Time(Duration::from_secs(20));
    load::write(&daemon, Verb::Update, clients, 1_000, warm).await;
    let updated = load::write(&daemon, Verb::Update, clients, 1_000, Until::Time(time)).await;
    print("update", updated);
}
