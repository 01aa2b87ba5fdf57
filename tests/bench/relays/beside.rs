//! Measures the deliveries of 5,000 watches of one object while another user's relays run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::ways::{POD, PODS, container};
use super::{daemon, median};
use crate::additions::{Watchers, watches};
use crate::harness::{Call, Protocol, Target};
use crate::kubelet::Kubelet;
use crate::report::{figure, part};

/// The token of the user who relays.
pub const TOKEN: &str = "the-token-of-relays";
/// The container whose log grows by 0.5 MB a second.
pub const PACED: &str = "paced-500000";

/// How often deliveries are measured without relays and with each kind of them, alternately.
const ROUNDS: usize = 3;

/// A kind of relays.
struct Kind {
    name: &'static str,
    container: String,
    relays: usize,
}

/// Runs relays until the result is dropped, and counts their bytes.
async fn relays(target: &Target, kind: &Kind, bytes: &Arc<AtomicU64>) -> JoinSet<()> {
    let path = format!("{PODS}/{POD}/log?follow=1&container={}", kind.container);
    let mut all = JoinSet::new();
    for _ in 0..kind.relays {
        // Each has a connection of its own.
        let client = target.client_over(Protocol::Http1);
        let mut log = client.lines(Call::get(&path)).await.unwrap();
        assert_eq!(log.status.as_u16(), 200);
        let bytes = Arc::clone(bytes);
        all.spawn(async move {
            while let Some(piece) = log.piece().await.unwrap() {
                bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
        });
    }
    all
}

/// Measures deliveries without relays and with them.
pub async fn measure() {
    part(&format!(
        "deliveries to {} watches of one object beside relays of another user",
        watches()
    ));
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet, 1 << 20).await;
    let target = daemon.target().with_token(TOKEN);
    let mut watchers = Watchers::start(&daemon.target());
    let kinds = [
        Kind {
            name: "100 relays of 0.5 MB/s",
            container: PACED.to_owned(),
            relays: 100,
        },
        Kind {
            name: "8 relays as fast as they can",
            container: container(u64::MAX),
            relays: 8,
        },
    ];
    let mut quiet = Vec::new();
    let mut beside = [const { Vec::new() }; 2];
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        quiet.push(watchers.during(async {}).await);
        for (index, kind) in kinds.iter().enumerate() {
            let bytes = Arc::<AtomicU64>::default();
            let mut running = relays(&target, kind, &bytes).await;
            let (before, begin) = (bytes.load(Ordering::Relaxed), Instant::now());
            beside[index].push(watchers.during(async {}).await);
            let bytes = bytes.load(Ordering::Relaxed) - before;
            rates[index].push(bytes as f64 / begin.elapsed().as_secs_f64() / 1e6);
            running.shutdown().await;
        }
    }
    let quiet = median(quiet);
    figure("write to delivery p99 without relays", quiet, "ms", "");
    let [paced, saturating] = beside.map(median);
    let [paced_rate, saturating_rate] = rates.map(median);
    figure(kinds[0].name, paced_rate, "MB/s", "50");
    figure("p99 meanwhile", paced, "ms", "");
    figure("ratio", paced / quiet, "", "<= 1.2");
    figure(kinds[1].name, saturating_rate, "MB/s", "");
    figure("p99 meanwhile", saturating, "ms", "<= 50");
}
