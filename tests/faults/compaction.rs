//! Compaction by another client of etcd, and the agreement of daemons on compaction.

use std::time::Duration;

use etcd_client::Client;
use serde_json::json;

use crate::fleet::{Fleet, Plan};
use crate::fleet_load::FleetLoad;
use crate::harness::{Call, Daemon, version};
use crate::turn;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// The newest revision of an etcd.
pub async fn newest_revision(etcd: &mut Client) -> i64 {
    let now = etcd.get("now", None).await.unwrap();
    now.header().unwrap().revision()
}

async fn compact_everything(etcd: &mut Client) -> i64 {
    let newest = newest_revision(etcd).await;
    // Somebody else may have been faster.
    let _ = etcd.compact(newest, None).await;
    newest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_compacts_under_watches() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan::SINGLE).await;
    let load = FleetLoad::start(&fleet).await;
    let mut etcd = Client::connect(fleet.cluster.urls(), None).await.unwrap();
    let mut fills = Vec::new();
    for daemon in &fleet.daemons {
        fills.push(fills_of(daemon).await);
    }
    for _ in 0..60 {
        load.wait_for_writes(10).await;
        compact_everything(&mut etcd).await;
    }
    let totals = load.stop_and_check(&fleet).await;
    assert!(totals.acknowledged > 500);
    for (daemon, before) in fleet.daemons.iter().zip(fills) {
        assert_eq!(
            fills_of(daemon).await,
            before,
            "a cache that follows is not filled anew"
        );
    }
}

async fn fills_of(daemon: &Daemon) -> u64 {
    daemon
        .count("apiserver_watch_cache_initializations_total")
        .await
}

/// With a cache, and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_compacts_under_a_paged_list_li_51() {
    let _turn = turn().await;
    for plan in [
        Plan::SINGLE,
        Plan {
            daemon: &["--watch-cache=false"],
            ..Plan::SINGLE
        },
    ] {
        let fleet = Fleet::start(plan).await;
        let mut etcd = Client::connect(fleet.cluster.urls(), None).await.unwrap();
        let client = fleet.daemons[0].client();
        for number in 0..6 {
            let name = format!("c{number}");
            let object = json!({ "metadata": { "name": name }, "data": { "k": "1" } });
            client.call(Call::post(PATH, &object)).await.expect(201);
        }
        for daemon in &fleet.daemons {
            page_through(daemon, &mut etcd).await;
        }
    }
}

/// A page, a change and a compaction; then the next page is that of the first one's state, or
/// refused with a token that goes on.
async fn page_through(daemon: &Daemon, etcd: &mut Client) {
    let client = daemon.client();
    let first = client
        .call(Call::get(&format!("{PATH}?limit=2")))
        .await
        .expect(200);
    let token =
        |list: &serde_json::Value| list["metadata"]["continue"].as_str().unwrap().to_owned();
    let changed = json!({ "data": { "k": "2" } });
    let patch = Call::merge_patch(&format!("{PATH}/c4"), &changed);
    client.call(patch).await.expect(200);
    compact_everything(etcd).await;
    let next = client
        .call(Call::get(&format!(
            "{PATH}?limit=10&continue={}",
            token(&first)
        )))
        .await;
    let rest = match next.status.as_u16() {
        200 => {
            let rest = next.json();
            assert_eq!(version(&rest), version(&first), "one state for all pages");
            rest
        }
        410 => {
            let status = next.refusal(410, "Expired");
            let go_on = format!("{PATH}?limit=10&continue={}", token(&status));
            client.call(Call::get(&go_on)).await.expect(200)
        }
        _ => panic!("{}", next.text()),
    };
    let names = rest["items"].as_array().unwrap().iter().map(|item| {
        let name = item["metadata"]["name"].as_str().unwrap();
        name.to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["c2", "c3", "c4", "c5"]);
}

/// However many daemons there are, history is compacted once in an interval (OP-14), by a key
/// outside of every prefix that all of them follow (OP-15, PF-24) and that moves the store itself
/// (OP-16).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_agree_on_one_compaction_an_interval_op_13_op_14() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan {
        daemons: 3,
        daemon: &["--etcd-compaction-interval=2s"],
        ..Plan::SINGLE
    })
    .await;
    let mut etcd = Client::connect(fleet.cluster.urls(), None).await.unwrap();
    let mut key = async || {
        let read = etcd.get("compact_rev_key", None).await.unwrap();
        let kv = read.kvs().first();
        kv.map(|kv| {
            (
                kv.version(),
                kv.value_str().unwrap().parse::<u64>().unwrap(),
            )
        })
    };
    let client = fleet.daemons[0].client();
    let begun = std::time::Instant::now();
    let mut versions = Vec::new();
    for number in 0..120 {
        let object = json!({ "metadata": { "name": format!("n{number}") } });
        client.call(Call::post(PATH, &object)).await.expect(201);
        versions.extend(key().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let intervals = begun.elapsed().as_secs() / 2;
    let (version, revision) = *versions.last().expect("somebody compacts");
    assert!(
        version as u64 <= intervals + 1,
        "{version} compactions in {intervals} intervals"
    );
    assert!(
        version as u64 + 2 >= intervals,
        "{version} compactions in {intervals} intervals"
    );
    assert!(revision > 0, "nothing was compacted yet");
    // Not only said: etcd refuses what lies before it.
    let past = etcd_client::GetOptions::new().with_revision(revision.cast_signed() - 1);
    let mut asking = Client::connect(fleet.cluster.urls(), None).await.unwrap();
    let refused = asking.get("now", Some(past)).await.unwrap_err().to_string();
    assert!(refused.contains("has been compacted"), "{refused}");
    let idle = version;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let (version, _) = key().await.unwrap();
    assert!(version > idle, "nobody writes, and the store moves");
    // What is compacted is known to all, and refused by all.
    let expired = format!("{PATH}?resourceVersion={}&resourceVersionMatch=Exact", 2);
    for daemon in &fleet.daemons {
        let answer = daemon.client().call(Call::get(&expired)).await;
        answer.refusal(410, "Expired");
    }
}
