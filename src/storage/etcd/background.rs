//! Background tasks: learn the servers' versions, follow the compactions of others, end idle
//! watches, and measure the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actors::engine::{At, EngineError, Key, Prefix, Revision};
use actors::tasks;
use tokio::runtime::Handle;

use super::cluster::Cluster;
use super::compact_rounds::{COMPACT_REV_KEY, compacted};
use super::etcd_watch::WatchMessage;
use super::servers::Member;
use super::version::{STATUS_TIMEOUT, learn_version};

/// How often idle watches are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3);
/// How often a known version is asked for again, because servers are upgraded and rolled back.
const VERSION_INTERVAL: Duration = Duration::from_secs(60);
/// Pauses between attempts to learn a server's version (ST-72).
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The pause before following the compactions of others is tried again (OP-15).
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// Starts all background tasks. They end when the cluster is closed. `size_every` is the time
/// between two measurements of the database; zero is never.
pub(super) fn start(cluster: &Arc<Cluster>, handle: &Handle, size_every: Duration) {
    for number in 0..cluster.servers.all().len() {
        tasks::spawn_on(handle, follow_version(Arc::clone(cluster), number));
    }
    tasks::spawn_on(handle, follow_compactions(Arc::clone(cluster)));
    tasks::spawn_on(handle, sweep_idle_watches(Arc::clone(cluster)));
    if !size_every.is_zero() {
        tasks::spawn_on(handle, watch_size(Arc::clone(cluster), size_every));
    }
}

/// Asks a server for its version periodically (ST-72).
async fn follow_version(cluster: Arc<Cluster>, number: usize) {
    let mut closed = cluster.closed.subscribe();
    let mut pause = FIRST_PAUSE;
    while let Some(member) = cluster.servers.all().get(number) {
        let next = match learn_version(member).await {
            true => VERSION_INTERVAL,
            false => {
                let longer = (pause * 2).min(LONGEST_PAUSE);
                std::mem::replace(&mut pause, longer)
            }
        };
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(next) => {}
        }
    }
}

/// Learns what others have compacted from the key of compaction rounds (OP-15).
async fn follow_compactions(cluster: Arc<Cluster>) {
    let mut closed = cluster.closed.subscribe();
    loop {
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(FOLLOW_PAUSE) => {}
        }
        let followed = tokio::select! {
            _ = closed.changed() => return,
            followed = follow(&cluster) => followed,
        };
        if let Err(error) = followed {
            tracing::debug!(%error, "the watch of {COMPACT_REV_KEY} broke; it is reopened");
        }
    }
}

async fn follow(cluster: &Cluster) -> Result<(), EngineError> {
    let epoch = cluster.state.epoch();
    let key = Key::new(COMPACT_REV_KEY);
    let learn = |value: &[u8], written_at: Revision| {
        if let Some(revision) = compacted(value, written_at) {
            cluster.state.learn_compacted(revision, epoch);
        }
    };
    let read = cluster.get(key.clone(), At::Latest).await?;
    if let Some(item) = read.item {
        learn(&item.value, item.revision);
    }
    let prefix = Prefix::new(key.as_bytes());
    let mut watch = cluster.watch(&prefix, read.revision).await?;
    loop {
        let Some(WatchMessage::Events(events)) = watch.next().await? else {
            continue;
        };
        for event in events.iter().filter(|event| event.key == key) {
            learn(&event.value, event.revision);
        }
    }
}

/// Ends watches of the past that no reader continued.
async fn sweep_idle_watches(cluster: Arc<Cluster>) {
    let mut closed = cluster.closed.subscribe();
    loop {
        tokio::select! {
            _ = closed.changed() => return,
            () = tokio::time::sleep(SWEEP_INTERVAL) => cluster.idle_watches.sweep(),
        }
    }
}

async fn watch_size(cluster: Arc<Cluster>, every: Duration) {
    loop {
        let size = match cluster.servers.current() {
            Some((_, member)) => size_of(member).await,
            None => None,
        };
        // An old size does not answer for the current one (ME-11).
        let known = size.unwrap_or_default();
        cluster.database_bytes.store(known, Ordering::Relaxed);
        // A server that does not answer yet may answer soon.
        let pause = if size.is_some() {
            every
        } else {
            every.min(STATUS_TIMEOUT)
        };
        tokio::time::sleep(pause).await;
    }
}

async fn size_of(member: &Member) -> Option<i64> {
    let mut maintenance = member.maintenance.clone();
    let status = tokio::time::timeout(STATUS_TIMEOUT, maintenance.status());
    Some(status.await.ok()?.ok()?.db_size())
}
