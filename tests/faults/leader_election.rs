//! The built-in controllers, with several daemons.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::{Fleet, Plan};
use crate::harness::{Call, Daemon};
use crate::turn;

/// The indices of the daemons whose controllers run now.
async fn leading(daemons: &[Daemon]) -> Vec<usize> {
    let mut leading = Vec::new();
    for (number, daemon) in daemons.iter().enumerate() {
        if daemon.count("taffrail_upkeep_leading").await == 1 {
            leading.push(number);
        }
    }
    leading
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_daemon_runs_the_controllers_and_another_takes_over_when_it_is_killed() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan {
        daemons: 3,
        ..Plan::SINGLE
    })
    .await;
    let begun = Instant::now();
    let leader = loop {
        match leading(&fleet.daemons).await.as_slice() {
            [] => assert!(begun.elapsed() < Duration::from_secs(20), "nobody leads"),
            [leader] => break *leader,
            several => panic!("{several:?} run the controllers at the same time"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut dead = fleet.daemons.remove(leader);
    let client = fleet.daemons[0].client();
    let namespace = json!({ "metadata": { "name": "doomed" } });
    client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await
        .expect(201);
    let path = "/api/v1/namespaces/doomed/configmaps";
    for number in 0..20 {
        let object = json!({ "metadata": { "name": format!("c{number}") } });
        client.call(Call::post(path, &object)).await.expect(201);
    }
    dead.kill().await;
    client
        .call(Call::delete("/api/v1/namespaces/doomed"))
        .await
        .expect(200);
    let begun = Instant::now();
    let other = fleet.daemons[1].client();
    let object = json!({ "metadata": { "name": "late" } });
    while other
        .call(Call::get("/api/v1/namespaces/doomed"))
        .await
        .status
        == 200
    {
        // Whichever daemon is asked, nothing new comes into it.
        let late = other.call(Call::post(path, &object)).await;
        assert!(
            [403, 404].contains(&late.status.as_u16()) || begun.elapsed() < Duration::from_secs(2),
            "{}",
            late.text()
        );
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is never emptied"
        );
        assert!(leading(&fleet.daemons).await.len() < 2);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = client
        .call(Call::get("/api/v1/configmaps"))
        .await
        .expect(200);
    let items = left["items"].as_array().unwrap().iter();
    let mut outliving = items.filter(|item| item["metadata"]["namespace"] == "doomed");
    assert_eq!(outliving.next(), None, "nothing outlives its namespace");
}
