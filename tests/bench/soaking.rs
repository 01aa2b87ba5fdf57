//! Measures 20,000 watches and 200 writers for minutes: their cost, and that nothing is lost.

use std::time::Duration;

use crate::harness::Daemon;
use crate::meter::Sample;
use crate::report::{figure, part};
use crate::soak::{self, Soak};

pub async fn measure(minutes: f64) {
    let soak = Soak {
        watches: 20_000,
        writers: 200,
        pace: Duration::from_secs(1),
        duration: Duration::from_secs_f64(60.0 * minutes),
    };
    part(&format!(
        "{} watches and {} writers for {minutes} minutes",
        soak.watches, soak.writers
    ));
    let daemon = Daemon::start().await;
    let before = Sample::take(daemon.pid());
    let soaked = soak::run(&daemon, soak).await;
    let used = before.until(&Sample::take(daemon.pid()));
    figure("writes", soaked.writes as f64, "", "");
    figure("deliveries", soaked.deliveries as f64, "", "");
    figure(
        "lost, repeated or out of order",
        soaked.wrong as f64,
        "",
        "0",
    );
    figure("memory after a fifth of the time", soaked.early, "MiB", "");
    figure("memory at the end", soaked.late, "MiB", "the same");
    let cores = used.daemon / used.elapsed.as_secs_f64();
    figure("cores of the daemon", cores, "", "");
}
