//! Measures resident memory, empty and full.

use std::time::Duration;

use crate::harness::{Call, Daemon};
use crate::load::{self, Until, Verb};
use crate::report::{figure, part};
use crate::startup::reopened;

/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);

async fn settled(daemon: &Daemon) -> f64 {
    tokio::time::sleep(SETTLE).await;
    daemon.resident()
}

pub async fn measure(objects: u64) {
    part(&format!(
        "resident memory, with {objects} ConfigMaps of 1 KiB"
    ));
    let mut daemon = Daemon::start().await;
    let empty = settled(&daemon).await;
    figure("idle and empty", empty, "MiB", "< 20");
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 64, 0, Until::Count(objects)).await;
    let loaded = settled(&daemon).await;
    // The size of each object on the wire.
    let json = {
        let list = daemon
            .client()
            .call(Call::get(&load::collection()))
            .await
            .expect(200);
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len() as u64, objects);
        let bytes: usize = items.iter().map(|item| item.to_string().len()).sum();
        bytes as f64 / (1024.0 * 1024.0)
    };
    figure("their JSON", json, "MiB", "");
    figure(
        "after the load: (memory - empty) / JSON",
        (loaded - empty) / json,
        "",
        "<= 1.35",
    );
    daemon.kill().await;
    let daemon = reopened(daemon.folder()).await;
    let restarted = settled(&daemon).await;
    figure(
        "after a restart: (memory - empty) / JSON",
        (restarted - empty) / json,
        "",
        "<= 1.35",
    );
}
