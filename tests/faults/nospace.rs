//! etcd without free quota (NOSPACE).

use std::time::{Duration, Instant};

use etcd_client::{AlarmAction, AlarmOptions, AlarmType};
use serde_json::json;

use crate::compaction::newest_revision;
use crate::fleet::{Fleet, Plan};
use crate::fleet_load::{FleetLoad, RECOVERED_WITHIN};
use crate::harness::{Call, Client, version};
use crate::registers::client::is_refusal;
use crate::turn;

const MIB: usize = 1 << 20;

/// Deletes an object, however often the outcome is unknown.
async fn delete(client: &Client, path: &str) {
    let begun = Instant::now();
    loop {
        let deleted = client.call(Call::delete(path)).await;
        match deleted.status.as_u16() {
            200 | 404 => return,
            504 if begun.elapsed() < RECOVERED_WITHIN => {}
            _ => panic!("{}", deleted.text()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_full_and_is_given_room() {
    let _turn = turn().await;
    let fleet = Fleet::start(Plan {
        etcd: &["--quota-backend-bytes=16777216"],
        ..Plan::SINGLE
    })
    .await;
    let load = FleetLoad::start(&fleet).await;
    load.wait_for_writes(50).await;
    let client = fleet.daemons[0].client();
    let path = "/api/v1/namespaces/default/configmaps";
    let large = |number: usize| json!({ "metadata": { "name": format!("large{number}") }, "data": { "k": "x".repeat(MIB) } });
    let mut stored = 0;
    let refusal = loop {
        let answer = client.call(Call::post(path, &large(stored))).await;
        // A slow disk leaves the outcome of a write unknown (504): it may be stored.
        if ![201, 504].contains(&answer.status.as_u16()) {
            break answer;
        }
        stored += 1;
        assert!(stored < 100, "the quota has no effect");
    };
    let (code, status) = (refusal.status.as_u16(), refusal.json());
    assert!(is_refusal(code, &status), "{status}");
    assert!(
        status["message"].as_str().unwrap().contains("space"),
        "{status}"
    );
    assert_eq!(refusal.header("retry-after"), Some("2"));

    // Reads and deletes continue.
    let list = client
        .call(Call::get(&format!("{path}?limit=1")))
        .await
        .expect(200);
    assert!(version(&list) > 0);
    for number in 0..stored {
        let daemon = &fleet.daemons[number % fleet.daemons.len()];
        delete(&daemon.client(), &format!("{path}/large{number}")).await;
    }

    // The repair by etcd's operator. The daemons need none.
    let mut etcd = etcd_client::Client::connect(fleet.cluster.urls(), None)
        .await
        .unwrap();
    let newest = newest_revision(&mut etcd).await;
    etcd.compact(newest, None).await.unwrap();
    etcd.defragment().await.unwrap();
    let alarms = etcd
        .alarm(AlarmAction::Get, AlarmType::None, None)
        .await
        .unwrap();
    for alarm in alarms.alarms() {
        let mut member = AlarmOptions::new();
        member.with_member(alarm.member_id());
        let off = etcd.alarm(AlarmAction::Deactivate, alarm.alarm(), Some(member));
        off.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    load.stop_and_check(&fleet).await;
}
