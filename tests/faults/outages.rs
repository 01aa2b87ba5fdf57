//! Outages of etcd, the network and daemons: one fault per test, and the same checks after each.

use std::time::Duration;

use crate::fleet::{Fleet, Plan};
use crate::fleet_load::FleetLoad;
use crate::turn;

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan::SINGLE).await;
    let load = FleetLoad::start(&fleet).await;
    seconds(5).await;
    let totals = load.stop_and_check(&fleet).await;
    assert!(
        totals.acknowledged > 200 && totals.calls > 200,
        "hardly anything was done"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_killed_and_comes_back() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan::SINGLE).await;
    let load = FleetLoad::start(&fleet).await;
    for away in [0, 500, 4000] {
        load.wait_for_writes(100).await;
        fleet.cluster.members[0].kill();
        tokio::time::sleep(Duration::from_millis(away)).await;
        fleet.cluster.members[0].restart();
    }
    load.stop_and_check(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_to_etcd_is_cut_again_and_again() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan {
        proxied: true,
        ..Plan::SINGLE
    })
    .await;
    let load = FleetLoad::start(&fleet).await;
    for round in 0..30 {
        load.wait_for_writes(30).await;
        fleet.proxies[0].cut();
        if round % 10 == 9 {
            fleet.proxies[0].shut(true);
            seconds(2).await;
            fleet.proxies[0].shut(false);
        }
    }
    load.stop_and_check(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_stands_still_for_half_a_minute() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan::SINGLE).await;
    let load = FleetLoad::start(&fleet).await;
    load.wait_for_writes(100).await;
    fleet.cluster.members[0].pause();
    seconds(30).await;
    fleet.cluster.members[0].resume();
    load.stop_and_check(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_of_three_is_killed() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan::THREE).await;
    let load = FleetLoad::start(&fleet).await;
    for _ in 0..3 {
        load.wait_for_writes(100).await;
        let leader = fleet.cluster.leader().await;
        fleet.cluster.members[leader].kill();
        load.wait_for_writes(100).await;
        fleet.cluster.members[leader].restart();
        fleet.cluster.members[leader].wait();
    }
    load.stop_and_check(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_is_dead_for_good() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan::THREE).await;
    let load = FleetLoad::start(&fleet).await;
    // The first one configured: whoever starts with it has to move on.
    load.wait_for_writes(50).await;
    fleet.cluster.members[0].kill();
    load.wait_for_writes(300).await;
    fleet.daemons[1].kill().await;
    fleet.daemons[1].restart().await;
    load.wait_for_writes(100).await;
    load.stop_and_check(&fleet).await;
}

/// A watch of a member without a leader is ended by etcd, as it is asked to (WC-45).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quorum_is_lost_and_regained() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan::THREE).await;
    let load = FleetLoad::start(&fleet).await;
    load.wait_for_writes(100).await;
    fleet.cluster.members[0].kill();
    fleet.cluster.members[1].kill();
    seconds(12).await;
    fleet.cluster.members[0].restart();
    fleet.cluster.members[1].restart();
    load.stop_and_check(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_are_killed() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan::SINGLE).await;
    let load = FleetLoad::start(&fleet).await;
    for round in 0..10 {
        load.wait_for_writes(50).await;
        let daemon = &mut fleet.daemons[round % 2];
        daemon.kill().await;
        daemon.relaunch().await;
    }
    load.stop_and_check(&fleet).await;
}
