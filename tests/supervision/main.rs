//! Actors and threads that panic or stall while the daemon is under load.
//!
//! The daemon runs in the process of the test, which sets faults in its actors
//! ([`actors::testing::failpoints`]). Requests go over HTTP. `TAFFRAIL_SEED` repeats the random
//! choices of a run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/load/mod.rs"]
mod load;
#[allow(dead_code)]
#[path = "../resources/process.rs"]
mod process;
#[path = "../servers/mod.rs"]
mod servers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actors::testing::failpoints;
use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Client, body, configmap};
use crate::load::mixed::MixedLoad;
use crate::load::{Random, seed};
use crate::process::Running;
use crate::servers::etcd::Cluster;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// The actors that the load needs, and those that work beside it. There are two HTTP threads.
const ACTORS: [&str; 10] = [
    "cacher/configmaps",
    "reflector/configmaps",
    "writer/0",
    "writer/1",
    "writer/2",
    "writer/3",
    "compactor/base",
    "lessor/base",
    "dispatcher/0",
    "dispatcher/1",
];

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the parts have panicked as often as they were told to.
async fn hit(client: &Client, parts: &[&str]) {
    let begun = Instant::now();
    loop {
        keep_all_busy(client).await;
        let pending = parts.iter().filter(|part| failpoints::is_pending(part));
        let pending: Vec<_> = pending.collect();
        if pending.is_empty() {
            break;
        }
        assert!(begun.elapsed() < SOON, "{pending:?} had no turn");
    }
}

/// Gives work to the parts that the load leaves idle. An event takes a lease. Patches of one object
/// at the same time take turns; the keys of some objects belong to every Writer. Any of it may be
/// refused while parts fail.
async fn keep_all_busy(client: &Client) {
    let event = json!({
        "metadata": { "generateName": "e" },
        "involvedObject": { "namespace": "default" },
    });
    let events = "/api/v1/namespaces/default/events";
    let mut calls = vec![Call::post(events, &event)];
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        calls.push(Call::post(CONFIGMAPS, &body(name, "0")));
        for number in 0..4 {
            let patch = json!({ "data": { format!("k{number}"): unique() } });
            calls.push(Call::merge_patch(&configmap(name), &patch));
        }
    }
    join_all(calls.into_iter().map(|call| client.attempt(call))).await;
}

/// A text that no other call returns.
fn unique() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).to_string()
}

/// The number that a line of the metrics ends with, 0 if there is none.
async fn metric(client: &Client, line: &str) -> f64 {
    let page = client.call(Call::get("/metrics")).await.text();
    let mut lines = page.lines();
    let found = lines.find_map(|candidate| candidate.strip_prefix(line));
    found.map_or(0.0, |number| number.trim().parse().unwrap())
}

async fn readyz(client: &Client) -> String {
    client.call(Call::get("/readyz?verbose")).await.text()
}

/// Has each part panic alone, and then all of them at the same time.
async fn everything_panics(running: &Running, parts: &[&str]) {
    let seed = seed();
    println!("TAFFRAIL_SEED={seed}");
    let mut random = Random::new(seed);
    let client = running.client();
    let restarts = "taffrail_actor_restarts_total{actor=\"cacher\"}";
    let before = metric(&client, restarts).await;
    let load = MixedLoad::begin(running.target(), &mut random).await;
    for part in parts {
        tokio::time::sleep(Duration::from_millis(50 + random.below(300))).await;
        failpoints::panic_at(part, 1);
        hit(&client, &[part]).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    parts.iter().for_each(|part| failpoints::panic_at(part, 1));
    hit(&client, parts).await;
    until("all parts work again", async || {
        let told = readyz(&client).await;
        !told.contains("not at work") && told.contains("readyz check passed")
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(load.end(running.target()).await > 100);
    let told = readyz(&client).await;
    for part in parts.iter().filter(|part| is_supervised(part)) {
        let line = format!("[!]{part} works, restarts: 2, does not count");
        assert!(told.contains(&line), "{line} in {told}");
    }
    assert_eq!(metric(&client, restarts).await, before + 2.0);
}

fn is_supervised(part: &str) -> bool {
    ACTORS.contains(&part) && !part.starts_with("dispatcher/")
}

#[test]
fn actors_panic_alone_and_together_over_the_embedded_engine() {
    let running = Running::start(&["--http-threads=2", "--event-ttl=2s"]);
    running.block_on(everything_panics(&running, &ACTORS));
    running.stop();
}

#[test]
fn actors_panic_alone_and_together_over_etcd() {
    let cluster = Cluster::single("3.5");
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    let running = Running::start(&["--http-threads=2", "--event-ttl=2s", &servers]);
    running.block_on(everything_panics(&running, &ACTORS));
    running.stop();
}

/// A resource whose Cacher dies at each fill answers 429. Others notice nothing, and neither do
/// writes. It works again when what it died of is gone.
#[test]
fn a_poison_object_degrades_its_resource_alone_wc_40() {
    let running = Running::start(&[]);
    running.block_on(async {
        let client = running.client();
        for path in [CONFIGMAPS, SECRETS] {
            let created = client.call(Call::post(path, &body("poison", "1"))).await;
            // Values of a Secret are base64.
            let allowed = created.status == 201 || path == SECRETS;
            assert!(allowed, "{}", created.text());
        }
        let secret = json!({ "metadata": { "name": "good" }, "data": { "k": "MQ==" } });
        client.call(Call::post(SECRETS, &secret)).await.expect(201);
        failpoints::poison("/registry/configmaps/default/poison");
        let poisoned = body("poison", "2");
        let written = client
            .call(Call::put(&configmap("poison"), &poisoned))
            .await;
        written.expect(200);
        let degraded = "taffrail_actors_degraded{actor=\"cacher\"}";
        until("the budget is used up", async || {
            metric(&client, degraded).await == 1.0
        })
        .await;
        let refused = client.call(Call::get(CONFIGMAPS)).await;
        assert!(refused.header("retry-after").is_some());
        refused.refusal(429, "TooManyRequests");
        let watch = format!("{CONFIGMAPS}?watch=true");
        let refused = client.call(Call::get(&watch)).await;
        refused.refusal(429, "TooManyRequests");
        let created = client
            .call(Call::post(CONFIGMAPS, &body("other", "1")))
            .await;
        created.expect(201);
        assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
        let told = readyz(&client).await;
        let line = "[!]cacher/configmaps not at work, died too often and is left alone for a \
                    minute, restarts: 5, does not count";
        assert!(told.contains(line), "{told}");
        others_work(&client).await;
        failpoints::clear();
        let deadline = Instant::now() + Duration::from_secs(90);
        while client.call(Call::get(CONFIGMAPS)).await.status != 200 {
            assert!(Instant::now() < deadline, "the resource stays out of order");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let listed = client.call(Call::get(CONFIGMAPS)).await.expect(200);
        let values = listed["items"].as_array().unwrap().iter();
        let values: Vec<_> = values.map(|object| object["data"]["k"].clone()).collect();
        assert_eq!(values, ["1", "2"], "other and poison");
        assert_eq!(metric(&client, degraded).await, 0.0);
    });
    running.stop();
}

/// Another resource is listed, watched and changed.
async fn others_work(client: &Client) {
    let listed = client.call(Call::get(SECRETS)).await.expect(200);
    let from = listed["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = client
        .watch(&format!("{SECRETS}?watch=true&resourceVersion={from}"))
        .await;
    let patch = json!({ "data": { "k": "Mg==" } });
    let one = format!("{SECRETS}/good");
    client
        .call(Call::merge_patch(&one, &patch))
        .await
        .expect(200);
    assert_eq!(watch.event().await["object"]["data"]["k"], "Mg==");
}

#[test]
fn the_watchdog_names_an_actor_that_does_not_turn_and_its_thread() {
    let running = Running::start(&["--data-threads=1"]);
    running.block_on(async {
        let client = running.client();
        let stalls = "taffrail_stalls_total{part=\"cacher/configmaps\"}";
        let before = metric(&client, stalls).await;
        failpoints::stall_at("cacher/configmaps", Duration::from_secs(9));
        let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
        created.expect(201);
        until("the stall is told", async || {
            let told = readyz(&client).await;
            told.contains("[!]cacher/configmaps does not turn, does not count")
                && told.contains("[!]data/0 does not turn, does not count")
        })
        .await;
        let stalled = "taffrail_stalled{part=\"cacher/configmaps\"}";
        assert_eq!(metric(&client, stalled).await, 1.0);
        assert_eq!(metric(&client, stalls).await, before + 1.0);
        until("it turns again", async || {
            !readyz(&client).await.contains("does not turn")
        })
        .await;
        assert_eq!(metric(&client, stalled).await, 0.0);
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
    });
    running.stop();
}

#[test]
fn the_daemon_ends_with_its_supervisor() {
    let running = Running::start(&["--shutdown-timeout=3s"]);
    failpoints::panic_at("supervisor", 1);
    failpoints::panic_at("compactor/base", 1);
    running.ended();
}
