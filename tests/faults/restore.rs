//! etcd restored from a backup without its newest revisions, and another etcd at the same address.

use std::time::Duration;

use etcd_client::Client;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Plan};
use crate::harness::{Call, Daemon, version};
use crate::turn;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn create(daemon: &Daemon, name: &str) -> u64 {
    let object = json!({ "metadata": { "name": name } });
    version(
        &daemon
            .client()
            .call(Call::post(PATH, &object))
            .await
            .expect(201),
    )
}

async fn names(daemon: &Daemon, query: &str) -> Vec<String> {
    let list = daemon
        .client()
        .call(Call::get(&format!("{PATH}{query}")))
        .await
        .expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until a list at resourceVersion=0 has exactly these objects.
async fn wait_until_listed(daemon: &Daemon, wanted: &[&str]) {
    let begun = std::time::Instant::now();
    loop {
        let any = format!("{PATH}?resourceVersion=0");
        let answer = daemon.client().call(Call::get(&any)).await;
        if answer.status == 200 {
            let list = answer.json();
            let items = list["items"].as_array().unwrap().iter();
            let shown: Vec<&str> = items
                .map(|item| item["metadata"]["name"].as_str().unwrap())
                .collect();
            if shown == wanted {
                return;
            }
        }
        let log = daemon.stderr();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{}\n{log}",
            answer.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that the daemon drops the old state without a restart, ends watches, and serves the new
/// state.
async fn check_recovery(
    daemon: &Daemon,
    mut watch: crate::harness::client::Lines,
    wanted: &[&str],
) {
    wait_until_listed(daemon, wanted).await;
    daemon.ready().await;
    let end = async { while let Ok(Some(_)) = watch.next().await {} };
    let ended = tokio::time::timeout(Duration::from_secs(10), end).await;
    ended.expect("a watch of what is gone ends");
    let log = daemon.stderr();
    assert!(
        log.contains("etcd has lost revisions that it had shown"),
        "{log}"
    );
    assert_eq!(names(daemon, "").await, wanted);
    let new = create(daemon, "new").await;
    let path = format!("{PATH}?watch=true&resourceVersion={}", new - 1);
    let mut lines = daemon.client().watch(&path).await;
    let line = lines.next().await.unwrap().unwrap();
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(event["object"]["metadata"]["name"], "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_restored_from_a_backup() {
    check_restore(Duration::ZERO, 0).await;
}

/// The outage is longer than the retry backoff of caches, so others may notice first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_restored_from_a_backup_after_a_while() {
    check_restore(Duration::from_secs(12), 0).await;
}

/// Other clients write after the restore, until the revision is higher than ever before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_restored_from_a_backup_and_has_grown_beyond_what_was_seen() {
    check_restore(Duration::ZERO, 120).await;
}

/// Writes by other clients.
async fn write_as_another_client(fleet: &Fleet, writes: u64) {
    let mut etcd = Client::connect(fleet.cluster.urls(), None).await.unwrap();
    for number in 0..writes {
        let key = format!("/others/{number}");
        etcd.put(key, "x", None).await.unwrap();
    }
}

/// A restore after an outage, with writes of other clients before any daemon sees it.
async fn check_restore(away: Duration, other_writes: u64) {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan {
        proxied: true,
        ..Plan::SINGLE
    })
    .await;
    create(&fleet.daemons[0], "a").await;
    fleet.cluster.members[0].kill();
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    fleet.cluster.members[0].back_up(&backup);
    fleet.cluster.members[0].restart();
    fleet.cluster.members[0].wait();
    for number in 0..50 {
        create(&fleet.daemons[number % 2], &format!("b{number}")).await;
    }
    if other_writes > 0 {
        // A deletion is the hardest change to notice.
        let last = Call::delete(&format!("{PATH}/b49"));
        fleet.daemons[0].client().call(last).await.expect(200);
    }
    let mut watches = Vec::new();
    for daemon in &fleet.daemons {
        watches.push(daemon.client().watch(&format!("{PATH}?watch=true")).await);
    }
    fleet.proxies[0].shut(true);
    fleet.cluster.members[0].kill();
    fleet.cluster.members[0].restore(&backup);
    tokio::time::sleep(away).await;
    fleet.cluster.members[0].restart();
    fleet.cluster.members[0].wait();
    write_as_another_client(&fleet, other_writes).await;
    fleet.proxies[0].shut(false);
    for (daemon, watch) in fleet.daemons.iter().zip(watches) {
        check_recovery(daemon, watch, &["a"]).await;
        let path = format!("{PATH}/new");
        daemon.client().call(Call::delete(&path)).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_answers_at_the_same_address() {
    let _turn = turn().await;
    let mut fleet = Fleet::start(Plan {
        daemons: 1,
        ..Plan::SINGLE
    })
    .await;
    create(&fleet.daemons[0], "a").await;
    let watch = fleet.daemons[0]
        .client()
        .watch(&format!("{PATH}?watch=true"))
        .await;
    fleet.cluster.members[0].kill();
    fleet.cluster.members[0].begin_anew();
    fleet.cluster.members[0].restart();
    fleet.cluster.members[0].wait();
    // Even the namespaces are gone. The namespace controller creates them again.
    let daemon = &fleet.daemons[0];
    wait_until_listed(daemon, &[]).await;
    let begun = std::time::Instant::now();
    let namespace = "/api/v1/namespaces/default";
    while daemon.client().call(Call::get(namespace)).await.status != 200 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{}",
            daemon.stderr()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    check_recovery(daemon, watch, &[]).await;
}
