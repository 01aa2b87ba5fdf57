//! Deletions of many objects by one request, and the collection of many dependents of one owner.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Call, Client, Daemon};
use crate::load::{self, NAMESPACE, Until, Verb};
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// Measures with this many objects.
pub async fn measure(count: u64) {
    collection(count).await;
    for policy in ["Background", "Foreground"] {
        dependents(count, policy).await;
    }
}

async fn collection(count: u64) {
    part(&format!(
        "{count} ConfigMaps of 1 KiB, deleted by one request"
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 32, 0, Until::Count(count)).await;
    let client = daemon.client();
    let before = Sample::take(daemon.pid());
    let start = Instant::now();
    let deleting = client.call(Call::delete(&load::collection()));
    let deleted = deleting.await.expect(200);
    let took = start.elapsed();
    let used = before.until(&Sample::take(daemon.pid()));
    let items = deleted["items"].as_array().map_or(0, Vec::len) as f64;
    assert_eq!(items, count as f64);
    figure(
        "deletions a second",
        items / took.as_secs_f64(),
        "/s",
        "> 5000",
    );
    figure(
        "CPU of the daemon for one",
        used.daemon / items * 1e6,
        "µs",
        "",
    );
    noise(used.other_cores);
}

async fn dependents(count: u64, policy: &str) {
    part(&format!(
        "an owner with {count} dependents, deleted with policy {policy}"
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = client.call(Call::post(&load::collection(), &owner)).await;
    let owner = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.expect(201)["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    for number in 0..count {
        let mut object = load::object(number, "0");
        object["metadata"]["ownerReferences"] = owner.clone();
        let creating = client.call(Call::post(&load::collection(), &object));
        creating.await.expect(201);
    }
    let before = Sample::take(daemon.pid());
    let start = Instant::now();
    let path = format!("{}/owner?propagationPolicy={policy}", load::collection());
    client.call(Call::delete(&path)).await.expect(200);
    while remaining(&client).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = start.elapsed();
    let used = before.until(&Sample::take(daemon.pid()));
    figure("time until all are gone", took.as_secs_f64(), "s", "< 5");
    figure("CPU of the daemon", used.daemon, "s", "");
    noise(used.other_cores);
}

/// How many ConfigMaps there are.
async fn remaining(client: &Client) -> u64 {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?limit=1");
    let page = client.call(Call::get(&path)).await.expect(200);
    let shown = page["items"].as_array().map_or(0, Vec::len) as u64;
    shown + page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0)
}
