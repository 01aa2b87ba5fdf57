//! Events expire. Other objects do not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::Lines;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, configmap, version};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const TIMEOUT: Duration = Duration::from_secs(20);

fn event(name: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": reason,
    })
}

async fn create(client: &Client, name: &str) -> Value {
    let call = Call::post(EVENTS, &event(name, "Made"));
    client.call(call).await.expect(201)
}

/// The next event of a watch: kind, name, version.
async fn next(watch: &mut Lines) -> (String, String, u64) {
    let seen = watch.event_within(TIMEOUT).await;
    let seen = seen.expect("the watch fell silent");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &seen["object"];
    let name = text(&object["metadata"]["name"]);
    (text(&seen["type"]), name, version(object))
}

async fn watch(daemon: &Daemon, from: u64) -> Lines {
    let path = format!("{EVENTS}?watch=1&resourceVersion={from}");
    daemon.client().watch(&path).await
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.call(Call::get(EVENTS)).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    items.map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_expire_after_their_last_change_and_watches_see_them_go_wa_23_op_4() {
    let daemon = Daemon::with(&["--event-ttl", "2s"]).await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("stays", "1")))
        .await
        .expect(201);
    let first = create(&client, "a").await;
    let mut watching = watch(&daemon, version(&first)).await;
    create(&client, "b").await;
    assert_eq!(next(&mut watching).await.1, "b");
    // A change prolongs the life of an event, and nothing else does (OP-5).
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let path = format!("{EVENTS}/b");
    let changed = Call::merge_patch(&path, &json!({"reason": "Changed"}));
    let changed = client.call(changed).await.expect(200);
    let same = Call::merge_patch(&format!("{EVENTS}/a"), &json!({"reason": "Made"}));
    let same = client.call(same).await.expect(200);
    assert_eq!(version(&same), version(&first));
    let (kind, name, modified) = next(&mut watching).await;
    assert_eq!((kind.as_str(), name.as_str()), ("MODIFIED", "b"));
    assert_eq!(modified, version(&changed));
    let (kind, name, gone) = next(&mut watching).await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "a"));
    assert!(gone > modified, "a version of its own");
    assert_eq!(names(&client).await, ["b"]);
    let (kind, name, last) = next(&mut watching).await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "b"));
    assert!(last > gone);
    client
        .call(Call::get(&format!("{EVENTS}/a")))
        .await
        .refusal(404, "NotFound");
    // Expiry looks like a deletion: older watches get the same events.
    let mut again = watch(&daemon, version(&first)).await;
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(next(&mut again).await.0);
    }
    assert_eq!(told, ["ADDED", "MODIFIED", "DELETED", "DELETED"]);
    client
        .call(Call::get(&configmap("stays")))
        .await
        .expect(200);
    assert_eq!(daemon.count("etcd_lease_object_counts_count").await, 3);
    let expired = "taffrail_lease_expired_objects_total{store=\"base\"}";
    assert_eq!(daemon.count(expired).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expired_while_no_daemon_ran_goes_when_one_runs_again_op_2() {
    let mut daemon = Daemon::with(&["--event-ttl", "2s"]).await;
    let client = daemon.client();
    for resource in [CONFIGMAPS, "/api/v1/namespaces/default/secrets"] {
        client
            .call(Call::post(
                resource,
                &json!({"metadata": {"name": "stays"}}),
            ))
            .await
            .expect(201);
    }
    let mut last = 0;
    for count in 0..150 {
        last = version(&create(&client, &format!("e{count:03}")).await);
    }
    daemon.kill().await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    daemon.restart().await;
    let mut watching = watch(&daemon, last).await;
    let mut gone = Vec::new();
    // Some may have gone before, of those that were made first.
    while gone.len() < 150 && gone.last().is_none_or(|(name, _)| name != "e149") {
        let (kind, name, at) = next(&mut watching).await;
        assert_eq!(kind, "DELETED");
        assert!(gone.last().is_none_or(|(_, before)| *before < at));
        gone.push((name, at));
    }
    let client = daemon.client();
    assert!(names(&client).await.is_empty());
    let mut unique: Vec<_> = gone.iter().map(|(name, _)| name).collect();
    unique.dedup();
    assert_eq!(unique.len(), gone.len());
    for path in [
        configmap("stays"),
        "/api/v1/namespaces/default/secrets/stays".to_owned(),
    ] {
        client.call(Call::get(&path)).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_time_to_live_events_stay_sf_19() {
    let daemon = Daemon::with(&["--event-ttl", "0"]).await;
    let client = daemon.client();
    create(&client, "a").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(daemon.count("etcd_lease_object_counts_count").await, 0);
}
