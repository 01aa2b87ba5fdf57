//! Kills of the real daemon at random moments, with writers and watchers.
//!
//! `TAFFRAIL_KILL_ROUNDS` sets the number of kills, and `TAFFRAIL_SEED` repeats the random choices
//! of a run. This test does not know the daemon's code.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Call, Daemon, version};
use crate::load::mixed::{MixedLoad, collection};
use crate::load::{Random, from_environment, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_no_watch_has_a_gap_when_the_daemon_is_killed() {
    let rounds = from_environment("TAFFRAIL_KILL_ROUNDS").unwrap_or(60);
    let seed = seed();
    println!("TAFFRAIL_SEED={seed} TAFFRAIL_KILL_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let mut daemon = Daemon::start().await;
    let load = MixedLoad::begin(&daemon.target(), &mut random).await;
    for round in 0..rounds {
        let newest = load.write_log.newest();
        // Some kills come before the daemon is ready, some later.
        let wait = if random.below(8) == 0 {
            random.below(60)
        } else {
            20 + random.below(400)
        };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        daemon.kill().await;
        daemon.relaunch().await;
        if random.below(8) != 0 {
            daemon.ready().await;
            let listed = daemon.client().call(Call::get(&collection())).await;
            let list = listed.expect(200);
            assert!(
                version(&list) >= newest,
                "round {round}: back to {list} from {newest}"
            );
        }
    }
    daemon.ready().await;
    let acknowledged = load.end(&daemon.target()).await;
    assert!(acknowledged as u64 >= rounds, "hardly anything was written");
}

/// A restart by SIGTERM under load. It is told of in time, and clients come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_under_load_lose_no_write_and_no_watch_event() {
    let seed = seed();
    println!("TAFFRAIL_SEED={seed}");
    let mut random = Random::new(seed);
    let mut daemon = Daemon::start().await;
    let load = MixedLoad::begin(&daemon.target(), &mut random).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(100 + random.below(500))).await;
        daemon.stop(Signal::TERM).await;
        daemon.restart().await;
    }
    assert!(load.end(&daemon.target()).await > 50);
}
