//! Measures deletions of many objects by one request, and the collection of many dependents of one
//! owner.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon};
use crate::load::{self, NAMESPACE, Until, Verb};
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// How many owners share the objects of [`graph()`].
const OWNERS: u64 = 1_000;
/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);
const CREATES_AT_ONCE: usize = 16;

/// Measures deletions with `count` objects, and memory with ten times as many.
pub async fn measure(count: u64) {
    collection(count).await;
    for policy in ["Background", "Foreground"] {
        dependents(count, policy).await;
    }
    graph(10 * count).await;
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
    let owner = owner(&client, "owner").await;
    dependents_of(&client, count, |_| &owner).await;
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

/// Creates a ConfigMap, and returns the owner references for its dependents.
async fn owner(client: &Client, name: &str) -> Value {
    let owner = json!({ "metadata": { "name": name, "labels": { "role": "owner" } } });
    let created = client.call(Call::post(&load::collection(), &owner)).await;
    json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": created.expect(201)["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }])
}

/// Creates `count` ConfigMaps with the references that `owner` returns for their numbers.
async fn dependents_of<'o>(client: &Client, count: u64, owner: impl Fn(u64) -> &'o Value) {
    stream::iter(0..count)
        .for_each_concurrent(CREATES_AT_ONCE, |number| {
            let mut object = load::object(number, "0");
            object["metadata"]["ownerReferences"] = owner(number).clone();
            async move {
                let creating = client.call(Call::post(&load::collection(), &object));
                creating.await.expect(201);
            }
        })
        .await;
}

/// Measures the memory of the collector: that of a daemon with it and without it.
async fn graph(count: u64) {
    part(&format!(
        "the garbage collector with {count} ConfigMaps that {OWNERS} others own"
    ));
    let (without, _) = with_owners(count, &["--controllers=*,-garbage-collector"]).await;
    let (with, daemon) = with_owners(count, &[]).await;
    figure("memory without the collector", without, "MiB", "");
    figure("memory with it", with, "MiB", "");
    let bytes = (with - without) * 1024.0 * 1024.0;
    figure("bytes for each", bytes / count as f64, "B", "");
    let client = daemon.client();
    let before = Sample::take(daemon.pid());
    let start = Instant::now();
    let path = format!("{}?labelSelector=role=owner", load::collection());
    client.call(Call::delete(&path)).await.expect(200);
    let mut most = with;
    while remaining(&client).await > 0 {
        most = most.max(daemon.resident());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = start.elapsed();
    let used = before.until(&Sample::take(daemon.pid()));
    figure("time until all are gone", took.as_secs_f64(), "s", "");
    figure("memory meanwhile", most, "MiB", "");
    noise(used.other_cores);
}

/// Starts a daemon with `count` ConfigMaps that have owners. Returns its memory at rest in MiB.
async fn with_owners(count: u64, flags: &[&str]) -> (f64, Daemon) {
    let daemon = Daemon::with(flags).await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let mut owners = Vec::new();
    for number in 0..OWNERS {
        owners.push(owner(&client, &format!("owner-{number}")).await);
    }
    let owner_of = |number: u64| &owners[(number % OWNERS) as usize];
    dependents_of(&client, count, owner_of).await;
    tokio::time::sleep(SETTLE).await;
    (daemon.resident(), daemon)
}

/// Returns the number of ConfigMaps.
async fn remaining(client: &Client) -> u64 {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?limit=1");
    let page = client.call(Call::get(&path)).await.expect(200);
    let shown = page["items"].as_array().map_or(0, Vec::len) as u64;
    shown + page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0)
}
