//! Measures the time from exec to the first `/readyz` with status 200.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{Call, Daemon, Options, Target, daemon};
use crate::load::{self, Until, Verb};
use crate::report::{Durations, figure, part};

/// Starts the daemon several times over the same folder, and ends it each time with SIGKILL or
/// SIGTERM.
async fn measure(folder: &TempDir, times: usize) -> Durations {
    let mut all = Durations::default();
    for _ in 0..times {
        let port = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let start = Instant::now();
        let mut child = daemon::command(folder.path(), port)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            let client = Target::new(address, None, None).client();
            if client
                .attempt(Call::get("/readyz"))
                .await
                .is_ok_and(|answer| answer.status == 200)
            {
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "it is not ready"
            );
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        all.add(start.elapsed());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    all
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Measures an empty store: the very first start, and later starts.
pub async fn empty() {
    part("start-up of an empty store, exec to /readyz 200");
    let mut first = Durations::default();
    for _ in 0..5 {
        first.extend(measure(&tempfile::tempdir().unwrap(), 1).await);
    }
    figure(
        "first start (makes its keys), median",
        first.percentile(0.5),
        "ms",
        "< 100",
    );
    let folder = tempfile::tempdir().unwrap();
    measure(&folder, 1).await;
    let mut again = measure(&folder, 20).await;
    figure(
        "every other start, median",
        again.percentile(0.5),
        "ms",
        "< 100",
    );
    figure(
        "every other start, worst of 20",
        again.percentile(1.0),
        "ms",
        "",
    );
}

/// Measures a store with many objects. Returns the median in milliseconds.
pub async fn full(objects: u64) -> f64 {
    part(&format!(
        "start-up with {objects} objects of 1 KiB, after kill -9"
    ));
    let folder = stored(objects, 0).await;
    again_and_again(&folder).await
}

/// Measures a store with much history.
pub async fn history(mebibytes: u64) {
    part(&format!(
        "start-up with {mebibytes} MiB of history of 1,000 objects, after kill -9"
    ));
    let folder = stored(1_000, mebibytes * 1024).await;
    again_and_again(&folder).await;
}

async fn again_and_again(folder: &TempDir) -> f64 {
    let mut all = measure(folder, 5).await;
    let median = all.percentile(0.5);
    figure("exec to /readyz 200, median of 5", median, "ms", "< 1000");
    figure("worst of 5", all.percentile(1.0), "ms", "");
    median
}

/// Returns a folder with objects and their updates, left by a killed daemon.
async fn stored(objects: u64, updates: u64) -> Arc<TempDir> {
    let keep = ["--retention-age", "24h", "--retention-bytes", "8GiB"];
    let mut daemon = Options::default().arguments(&keep).start().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 64, 0, Until::Count(objects)).await;
    load::write(&daemon, Verb::Update, 64, objects, Until::Count(updates)).await;
    daemon.kill().await;
    daemon.folder()
}

/// Starts a daemon over the folder of another one.
pub async fn reopened(folder: Arc<TempDir>) -> Daemon {
    Options::default().over(folder).start().await
}
