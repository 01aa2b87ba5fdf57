//! Outages of etcd, the network and daemons: one fault per test, and the same checks after each.

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, Plan};
use crate::fleet_load::{FleetLoad, retry_until};
use crate::harness::{Call, version};
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

/// A transaction that etcd gets after its client was answered takes effect nevertheless. So the
/// answer never says that nothing was done, although reads show nothing of it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_reach_etcd_late_were_never_said_to_have_failed() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan {
        proxied: true,
        daemons: 1,
        ..Plan::SINGLE
    })
    .await;
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let path = |name: &str| format!("{configmaps}/{name}");
    let object =
        |name: &str, value: &str| json!({ "metadata": { "name": name }, "data": { "k": value } });
    let client = fleet.daemons[0].client();
    for name in ["updated", "deleted"] {
        let create = Call::post(configmaps, &object(name, "before"));
        let created = client.call(create).await.expect(201);
        // The cache has it from now on, so that no write reads before its transaction.
        let list = format!("{configmaps}?resourceVersion={}", version(&created));
        client.call(Call::get(&list)).await.expect(200);
    }
    // etcd begins one transaction after another, before the daemon gives them up.
    fleet.proxies[0].hold(Duration::from_millis(100));
    let writes = [
        Call::post(configmaps, &object("created", "after")),
        Call::put(&path("updated"), &object("updated", "after")),
        Call::delete(&path("deleted")),
    ];
    // A connection of this client belongs to a thread that has connections to etcd by now.
    let writing = writes.map(|write| client.call(write));
    for answer in futures_util::future::join_all(writing).await {
        assert_eq!(answer.status, 504, "{}", answer.text());
    }
    // The daemon has given these connections up, and reads by others.
    retry_until(&client, Call::get(&path("created")), 404).await;
    let updated = retry_until(&client, Call::get(&path("updated")), 200).await;
    assert_eq!(updated["data"]["k"], "before");
    client.call(Call::get(&path("deleted"))).await.expect(200);

    fleet.proxies[0].release();
    retry_until(&client, Call::get(&path("created")), 200).await;
    retry_until(&client, Call::get(&path("deleted")), 404).await;
    let updated = client.call(Call::get(&path("updated"))).await.expect(200);
    assert_eq!(updated["data"]["k"], "after");
    let deletion = Call::delete(&path("deleted"));
    client.call(deletion).await.refusal(404, "NotFound");
}
