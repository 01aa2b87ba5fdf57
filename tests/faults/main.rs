//! Faults of etcd, of the network and of the daemons, while several daemons serve one cluster under
//! load.
//!
//! Each test starts real etcds and real daemons. `TAFFRAIL_SEED` repeats the random choices of a
//! run. README's map and the sizing page explain clusters of daemons.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/load/mod.rs"]
mod load;
#[path = "../servers/mod.rs"]
mod servers;

mod chained;
mod compaction;
mod etcd_watch;
mod fleet;
mod fleet_load;
mod known_bugs;
mod leader_election;
mod nospace;
mod outages;
mod overrides;
mod registers;
mod restore;
mod tls;

/// Tests with several servers run one after another, because they share the machine.
async fn turn() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}
