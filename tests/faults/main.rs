//! What happens to etcd, to the way there, and to the daemons, while several daemons serve one
//! cluster under load.
//!
//! Each test starts real etcds and real daemons. `TAFFRAIL_SEED` repeats a run as far as chance is
//! ours. README's map and the sizing page say what a cluster of daemons is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/load/mod.rs"]
mod load;
#[path = "../servers/mod.rs"]
mod servers;

mod compaction;
mod fleet;
mod leader_election;
mod lineage;
mod matrix;
mod overrides;
mod planted;
mod registers;
mod space;
mod story;
mod tls;
mod witness;

/// Tests that start several servers each take turns: the machine is shared.
async fn turn() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}
