//! Resources that are added to and removed from a running daemon a thousand times, while others are
//! watched.
//!
//! The daemon runs in the process of the test, which adds and removes resources through its handle
//! and requests them over HTTP. `TAFFRAIL_CYCLES` sets the number of cycles.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[path = "../servers/mod.rs"]
mod servers;

mod load;
mod process;

use std::time::{Duration, Instant};

use serde_json::json;
use taffrail::api::resource::ResourceDefinition;
use taffrail::daemon::resources::{ResourceError, Resources};

use crate::harness::{Call, Client, version};
use crate::load::Load;
use crate::process::{Process, Running};
use crate::servers::etcd::{self, Cluster};

const WATCHES_OF_ETCD: &str = "etcd_debugging_mvcc_watcher_total";
const SOON: Duration = Duration::from_secs(10);

/// The number of cycles.
fn cycles() -> usize {
    let cycles = std::env::var("TAFFRAIL_CYCLES").ok();
    cycles.map_or(1000, |text| text.parse().expect("a number"))
}

fn gadgets(plural: &str) -> ResourceDefinition {
    ResourceDefinition::named("example.com", "v1", "Gadget", plural)
}

/// Adds a resource, uses it and removes it: its watch ends, and its paths are gone.
async fn come_and_go(resources: &Resources, client: &Client, plural: &str) {
    let collection = format!("/apis/example.com/v1/namespaces/default/{plural}");
    resources.add(gadgets(plural)).await.unwrap();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "name": "a" }, "spec": 1,
    });
    let created = client.call(Call::post(&collection, &object)).await;
    let from = version(&created.expect(201));
    let mut watch = client
        .watch(&format!("{collection}?watch=true&resourceVersion={from}"))
        .await;
    let patch = json!({ "spec": 2 });
    let one = format!("{collection}/a");
    let patched = client.call(Call::merge_patch(&one, &patch)).await;
    assert_eq!(patched.expect(200)["spec"], 2);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["spec"]),
        (&json!("MODIFIED"), &json!(2))
    );
    client.call(Call::delete(&one)).await.expect(200);
    assert_eq!(watch.event().await["type"], "DELETED");
    let listed = client.call(Call::get(&collection)).await;
    assert_eq!(listed.expect(200)["items"], json!([]));
    resources.remove("example.com", plural).await.unwrap();
    assert_eq!(watch.rest().await, Vec::<serde_json::Value>::new());
    let gone = client.call(Call::get(&collection)).await;
    assert_eq!(gone.status, 404);
}

/// The use of a process and an etcd for served resources.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    threads: usize,
    parts: usize,
    etcd_watches: Option<String>,
}

async fn held(client: &Client, etcd: Option<&Cluster>) -> Held {
    let page = client.call(Call::get("/metrics")).await.text();
    assert!(!page.contains("gadgets"), "{page}");
    let health = client.call(Call::get("/readyz?verbose")).await.text();
    Held {
        threads: Process::threads(),
        parts: health.lines().count(),
        etcd_watches: etcd.map(|cluster| cluster.members[0].metric(WATCHES_OF_ETCD)),
    }
}

async fn a_thousand_resources(running: &Running, etcd: Option<&Cluster>) {
    let client = running.client();
    let load = Load::begin(running).await;
    let cycles = cycles();
    // The first cycles allocate connections, pools and caches, which later cycles reuse.
    for warming in 0..cycles / 5 {
        come_and_go(
            &running.resources,
            &client,
            &format!("warming{warming}gadgets"),
        )
        .await;
    }
    let before = held(&client, etcd).await;
    let memory = Process::resident_mib();
    for cycle in 0..cycles {
        let plural = match cycle % 2 {
            0 => "gadgets".to_owned(),
            _ => format!("gadgets{cycle}"),
        };
        come_and_go(&running.resources, &client, &plural).await;
    }
    // etcd is told of the end of a watch, and counts it when it has heard.
    let begun = Instant::now();
    while held(&client, etcd).await != before && begun.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(held(&client, etcd).await, before);
    let more = Process::resident_mib() - memory;
    assert!(more < 16.0, "{more} MiB more after {cycles} resources");
    load.end().await;
}

#[test]
fn a_thousand_resources_come_and_go_over_the_embedded_engine() {
    let running = Running::start(&[]);
    running.block_on(a_thousand_resources(&running, None));
    running.stop();
}

#[test]
fn a_resource_without_a_cache_comes_and_goes() {
    let running = Running::start(&["--watch-cache=false"]);
    running.block_on(async {
        let client = running.client();
        for _ in 0..3 {
            come_and_go(&running.resources, &client, "gadgets").await;
        }
    });
    running.stop();
}

fn over_etcd(version: &str) {
    if etcd::find(version).is_none() {
        return;
    }
    let cluster = Cluster::single(version);
    let running = Running::start(&["--etcd-servers", &cluster.urls().join(",")]);
    running.block_on(a_thousand_resources(&running, Some(&cluster)));
    running.stop();
}

#[test]
fn a_thousand_resources_come_and_go_over_etcd_3_4() {
    over_etcd("3.4");
}

#[test]
fn a_thousand_resources_come_and_go_over_etcd_3_5() {
    over_etcd("3.5");
}

#[test]
fn discovery_and_openapi_follow_what_is_served() {
    let running = Running::start(&[]);
    running.block_on(async {
        let client = running.client();
        let groups = |document: serde_json::Value| -> Vec<String> {
            let groups = document["groups"].as_array().unwrap().clone();
            let names = groups
                .iter()
                .map(|group| group["name"].as_str().unwrap().to_owned());
            names.collect()
        };
        let before = groups(client.call(Call::get("/apis")).await.expect(200));
        running.resources.add(gadgets("gadgets")).await.unwrap();
        let with = groups(client.call(Call::get("/apis")).await.expect(200));
        assert_eq!(with.last().map(String::as_str), Some("example.com"));
        assert_eq!(with.len(), before.len() + 1);
        let list = client
            .call(Call::get("/apis/example.com/v1"))
            .await
            .expect(200);
        assert_eq!(list["resources"][0]["name"], "gadgets");
        let document = client
            .call(Call::get("/openapi/v3/apis/example.com/v1"))
            .await;
        assert!(document.expect(200)["paths"]["/apis/example.com/v1/gadgets"].is_object());
        let twice = running.resources.add(gadgets("gadgets")).await;
        assert!(
            matches!(twice, Err(ResourceError::Taken { .. })),
            "{twice:?}"
        );
        let below = ResourceDefinition {
            key_prefix: "gadgets/below".to_owned(),
            ..gadgets("others")
        };
        let below = running.resources.add(below).await;
        assert!(
            matches!(below, Err(ResourceError::Taken { .. })),
            "{below:?}"
        );
        running
            .resources
            .remove("example.com", "gadgets")
            .await
            .unwrap();
        let again = running.resources.remove("example.com", "gadgets").await;
        assert!(
            matches!(again, Err(ResourceError::NotServed(_))),
            "{again:?}"
        );
        assert_eq!(
            groups(client.call(Call::get("/apis")).await.expect(200)),
            before
        );
        let gone = client.call(Call::get("/apis/example.com/v1")).await;
        assert_eq!(gone.status, 404);
    });
    running.stop();
}
