//! Resources that are added to and removed from a running daemon hundreds of times, while others
//! are watched.
//!
//! The daemon runs in the process of the test, which adds and removes resources through its handle
//! and requests them over HTTP. `TAFFRAIL_CYCLES` sets the number of cycles
//! (`tests/run.sh --long`: 1,000).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[path = "../servers/mod.rs"]
mod servers;

mod library;
mod load;
mod made_at_run_time;
#[allow(dead_code)]
mod process;
mod sharing;

use std::time::{Duration, Instant};

use serde_json::json;
use taffrail::ServerResources;
use taffrail::api::resource::{
    ConversionStrategy, Declared, ResourceDefinition, ResourceScope, Rules, SelectableField,
};
use taffrail::daemon::resources::ResourceError;

use crate::harness::{Call, Client, version};
use crate::load::Load;
use crate::process::{Process, Running};
use crate::servers::etcd::{self, Cluster};

const WATCHES_OF_ETCD: &str = "etcd_debugging_mvcc_watcher_total";
/// The resources that come and go.
const VISITORS: &str = "visitors";
const SOON: Duration = Duration::from_secs(10);

/// The number of cycles.
fn cycles() -> usize {
    let cycles = std::env::var("TAFFRAIL_CYCLES").ok();
    cycles.map_or(300, |text| text.parse().expect("a number"))
}

/// Each resource has a kind of its own: two of one kind can't be served together.
fn kind_of(plural: &str) -> String {
    format!("Kind{plural}")
}

fn gadgets(plural: &str) -> ResourceDefinition {
    ResourceDefinition::named("example.com", "v1", &kind_of(plural), plural)
}

/// A kind with these selectable fields whose versions differ in their type only.
fn convertible(selectable_fields: Vec<SelectableField>) -> Declared {
    let rules = Rules {
        conversion: ConversionStrategy::TypeOnly,
        ..Rules::default()
    };
    Declared {
        rules,
        selectable_fields,
        ..Declared::default()
    }
}

/// A version that differs from the others in its type only.
fn version_of(plural: &str, version: &str) -> ResourceDefinition {
    ResourceDefinition {
        version: version.to_owned(),
        ..gadgets(plural).with(convertible(Vec::new()))
    }
}

/// Adds a resource, uses it and removes it: its watch ends, and its paths are gone.
async fn come_and_go(resources: &ServerResources, client: &Client, plural: &str) {
    let collection = format!("/apis/example.com/v1/namespaces/default/{plural}");
    resources.add(gadgets(plural)).await.unwrap();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": kind_of(plural), "metadata": { "name": "a" }, "spec": 1,
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
    resources.remove("example.com", "v1", plural).await.unwrap();
    assert_eq!(watch.rest().await, Vec::<serde_json::Value>::new());
    let gone = client.call(Call::get(&collection)).await;
    assert_eq!(gone.status, 404);
}

/// The use of a process and an etcd for served resources.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    threads: usize,
    parts: usize,
    etcd_watches: Option<String>,
}

impl Held {
    /// Whether this is the same use, or that of fewer threads: tokio ends threads for blocking work
    /// that have had none for ten seconds, so those of the start may end while a test runs.
    fn is_no_more_than(&self, before: &Held) -> bool {
        let threads = before.threads;
        self.threads <= threads
            && Held {
                threads,
                ..self.clone()
            } == *before
    }
}

async fn held(client: &Client, etcd: Option<&Cluster>) -> Held {
    let page = client.call(Call::get("/metrics")).await.text();
    assert!(!page.contains(VISITORS), "{page}");
    let health = client.call(Call::get("/readyz?verbose")).await.text();
    Held {
        threads: Process::threads(),
        parts: health.lines().count(),
        etcd_watches: etcd.map(|cluster| cluster.members[0].metric(WATCHES_OF_ETCD)),
    }
}

async fn resources_come_and_go(running: &Running, etcd: Option<&Cluster>) {
    let client = running.client();
    let load = Load::begin(running).await;
    let cycles = cycles();
    // The first cycles allocate connections, pools and caches, which later cycles reuse.
    for warming in 0..cycles / 5 {
        come_and_go(
            &running.resources,
            &client,
            &format!("warming{warming}{VISITORS}"),
        )
        .await;
    }
    let before = held(&client, etcd).await;
    let memory = Process::resident_mib();
    for cycle in 0..cycles {
        let plural = match cycle % 2 {
            0 => VISITORS.to_owned(),
            _ => format!("{VISITORS}{cycle}"),
        };
        come_and_go(&running.resources, &client, &plural).await;
    }
    // etcd is told of the end of a watch, and counts it when it has heard.
    let begun = Instant::now();
    let mut now = held(&client, etcd).await;
    while !now.is_no_more_than(&before) && begun.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(50)).await;
        now = held(&client, etcd).await;
    }
    assert!(now.is_no_more_than(&before), "{now:?} after {before:?}");
    let more = Process::resident_mib() - memory;
    assert!(more < 16.0, "{more} MiB more after {cycles} resources");
    load.end().await;
}

#[test]
fn resources_come_and_go_over_the_embedded_engine() {
    let running = Running::start(&[]);
    running.block_on(resources_come_and_go(&running, None));
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
    let running = Running::start(&[&format!("--etcd-servers={}", cluster.urls().join(","))]);
    running.block_on(resources_come_and_go(&running, Some(&cluster)));
    running.stop();
}

#[test]
fn resources_come_and_go_over_etcd_3_4() {
    over_etcd("3.4");
}

#[test]
fn resources_come_and_go_over_etcd_3_5() {
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
            matches!(twice, Err(ResourceError::Definition(_))),
            "{twice:?}"
        );
        let below = ResourceDefinition {
            key_prefix: "gadgets/below".to_owned(),
            ..gadgets("others")
        };
        let below = running.resources.add(below).await;
        assert!(
            matches!(below, Err(ResourceError::Definition(_))),
            "{below:?}"
        );
        running
            .resources
            .remove("example.com", "v1", "gadgets")
            .await
            .unwrap();
        let again = running
            .resources
            .remove("example.com", "v1", "gadgets")
            .await;
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

/// Gets a document of discovery and finds the entry of gadgets.
async fn discovered(client: &Client, version: &str) -> serde_json::Value {
    let path = format!("/apis/example.com/{version}");
    let list = client.call(Call::get(&path)).await.expect(200);
    list["resources"][0].clone()
}

/// API-26, SF-41: two versions of one resource share storage, cache and metrics. Each shows the
/// objects in its own version, and one can go without the other.
async fn versions_share_a_stored_resource(running: &Running) {
    let (client, resources) = (running.client(), &running.resources);
    let path = |version: &str, rest: &str| {
        format!("/apis/example.com/{version}/namespaces/default/gadgets{rest}")
    };
    let api_version = |version: &str| json!(format!("example.com/{version}"));
    resources.add(version_of("gadgets", "v1")).await.unwrap();
    resources.add(version_of("gadgets", "v2")).await.unwrap();
    let health = client.call(Call::get("/readyz?verbose")).await.text();
    assert!(
        health
            .lines()
            .filter(|line| line.contains("gadgets"))
            .count()
            <= 2,
        "{health}"
    );

    let object = json!({ "metadata": { "name": "a" }, "spec": 1 });
    let created = client
        .call(Call::post(&path("v2", ""), &object))
        .await
        .expect(201);
    assert_eq!(created["apiVersion"], api_version("v2"));
    let from = version(&created);
    let watch = |version: &str| path(version, &format!("?watch=true&resourceVersion={from}"));
    let mut watches = [
        client.watch(&watch("v1")).await,
        client.watch(&watch("v2")).await,
    ];
    let patch = json!({ "spec": 2 });
    let patched = client
        .call(Call::merge_patch(&path("v1", "/a"), &patch))
        .await
        .expect(200);
    assert_eq!(patched["apiVersion"], api_version("v1"));
    for (watch, version) in watches.iter_mut().zip(["v1", "v2"]) {
        let event = watch.event().await;
        assert_eq!(event["object"]["apiVersion"], api_version(version));
        assert_eq!(event["object"]["spec"], 2);
        let got = client
            .call(Call::get(&path(version, "/a")))
            .await
            .expect(200);
        assert_eq!(got["apiVersion"], api_version(version));
        let list = client.call(Call::get(&path(version, ""))).await.expect(200);
        assert_eq!(list["apiVersion"], api_version(version));
        assert_eq!(list["items"][0]["spec"], 2);
    }
    // What one version has read, the other replaces.
    let replaced = client.call(Call::put(&path("v2", "/a"), &patched)).await;
    assert_eq!(replaced.expect(400)["reason"], "BadRequest");
    let mut other = patched.clone();
    (other["apiVersion"], other["spec"]) = (api_version("v2"), json!(3));
    let replaced = client
        .call(Call::put(&path("v2", "/a"), &other))
        .await
        .expect(200);
    assert_eq!(replaced["apiVersion"], api_version("v2"));
    let [one, two] = [
        discovered(&client, "v1").await,
        discovered(&client, "v2").await,
    ];
    assert_eq!(one["storageVersionHash"], two["storageVersionHash"]);

    // A version that is there, and one that can't be converted.
    let twice = resources.add(version_of("gadgets", "v2")).await;
    assert!(
        matches!(twice, Err(ResourceError::Definition(_))),
        "{twice:?}"
    );
    let alone = ResourceDefinition {
        version: "v3".to_owned(),
        ..gadgets("gadgets")
    };
    let alone = resources.add(alone).await;
    assert!(matches!(alone, Err(ResourceError::Storage(_))), "{alone:?}");

    // The first version goes, in which the objects are stored.
    resources
        .remove("example.com", "v1", "gadgets")
        .await
        .unwrap();
    for watch in &mut watches[..1] {
        while watch.next().await.unwrap().is_some() {}
    }
    assert_eq!(client.call(Call::get(&path("v1", "/a"))).await.status, 404);
    let got = client.call(Call::get(&path("v2", "/a"))).await.expect(200);
    assert_eq!(
        (&got["apiVersion"], &got["spec"]),
        (&api_version("v2"), &json!(3))
    );
    let deleted = client.call(Call::delete(&path("v2", "/a"))).await;
    assert_eq!(deleted.status, 200);
    resources
        .remove("example.com", "v2", "gadgets")
        .await
        .unwrap();
    let page = client.call(Call::get("/metrics")).await.text();
    assert!(!page.contains("gadgets"), "{page}");
}

#[test]
fn versions_share_a_stored_resource_with_a_cache() {
    let running = Running::start(&[]);
    running.block_on(versions_share_a_stored_resource(&running));
    running.stop();
}

#[test]
fn versions_share_a_stored_resource_without_a_cache() {
    let running = Running::start(&["--watch-cache=false"]);
    running.block_on(versions_share_a_stored_resource(&running));
    running.stop();
}

/// What was stored in one version is readable in the others, whichever is added first.
#[test]
fn the_order_in_which_versions_come_does_not_matter() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let path =
            |version: &str| format!("/apis/example.com/{version}/namespaces/default/sprockets");
        resources.add(version_of("sprockets", "v1")).await.unwrap();
        let object = json!({ "metadata": { "name": "a" }, "spec": 1 });
        client
            .call(Call::post(&path("v1"), &object))
            .await
            .expect(201);
        resources
            .remove("example.com", "v1", "sprockets")
            .await
            .unwrap();
        resources.add(version_of("sprockets", "v2")).await.unwrap();
        resources.add(version_of("sprockets", "v1")).await.unwrap();
        for version in ["v1", "v2"] {
            let got = client
                .call(Call::get(&format!("{}/a", path(version))))
                .await
                .expect(200);
            assert_eq!(got["apiVersion"], format!("example.com/{version}"));
            let list = client.call(Call::get(&path(version))).await.expect(200);
            assert_eq!(list["items"].as_array().unwrap().len(), 1);
        }
        // The preferred version comes first (API-30).
        let group = client
            .call(Call::get("/apis/example.com"))
            .await
            .expect(200);
        assert_eq!(group["preferredVersion"]["version"], "v2");
    });
    running.stop();
}

/// A version that comes back must still suit the cache, the hub's version too.
#[test]
fn a_version_that_comes_back_with_other_keys_or_fields_is_refused() {
    let running = Running::start(&[]);
    running.block_on(async {
        let resources = &running.resources;
        resources.add(version_of("levers", "v1")).await.unwrap();
        resources.add(version_of("levers", "v2")).await.unwrap();
        resources
            .remove("example.com", "v1", "levers")
            .await
            .unwrap();
        let field = SelectableField::text("spec.color", &["spec.color"]);
        for changed in [
            version_of("levers", "v1").with(convertible(vec![field])),
            ResourceDefinition {
                scope: ResourceScope::Cluster,
                ..version_of("levers", "v1")
            },
            version_of("levers", "v1").with(Declared::default()),
            ResourceDefinition {
                kind: "Widget".to_owned(),
                ..version_of("levers", "v1")
            },
        ] {
            let refused = resources.add(changed).await;
            assert!(
                matches!(refused, Err(ResourceError::Storage(_))),
                "{refused:?}"
            );
        }
        resources.add(version_of("levers", "v1")).await.unwrap();
    });
    running.stop();
}

/// Whoever stops waiting for a resource to come leaves no half of it.
#[test]
fn an_addition_that_nobody_waits_for_is_completed() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        for cut in 0..20 {
            let plural = format!("cogs{cut}");
            let adding = resources.add(gadgets(&plural));
            let _ = tokio::time::timeout(Duration::from_micros(50 * cut), adding).await;
            let path = format!("/apis/example.com/v1/{plural}");
            let begun = Instant::now();
            let is_served = async || client.call(Call::get(&path)).await.status == 200;
            while cut > 0 && !is_served().await {
                assert!(begun.elapsed() < SOON, "{plural} does not come");
                tokio::time::sleep(Duration::from_millis(5)).await;
                // A future that was never polled has done nothing.
                if begun.elapsed() > Duration::from_millis(500) {
                    resources.add(gadgets(&plural)).await.unwrap();
                }
            }
        }
    });
    running.stop();
}

/// A watch that waits for a revision opens after its version has gone.
#[test]
fn a_watch_that_waits_does_not_outlive_its_version() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        resources.add(version_of("valves", "v1")).await.unwrap();
        resources.add(version_of("valves", "v2")).await.unwrap();
        let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/valves");
        let object = |name: &str| json!({ "metadata": { "name": name } });
        let created = client
            .call(Call::post(&path("v2"), &object("a")))
            .await
            .expect(201);
        let next = version(&created) + 1;
        let query = format!(
            "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true&resourceVersion={next}"
        );
        let waiting = format!("{}{query}", path("v1"));
        let other = running.client();
        let watch = tokio::spawn(async move { other.call(Call::get(&waiting)).await.status });
        tokio::time::sleep(Duration::from_millis(300)).await;
        resources
            .remove("example.com", "v1", "valves")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        client
            .call(Call::post(&path("v2"), &object("b")))
            .await
            .expect(201);
        let status = tokio::time::timeout(SOON, watch)
            .await
            .expect("it ends")
            .unwrap();
        // 200 if something else was written before, so that the watch was open and was ended.
        assert!([200, 404].contains(&status.as_u16()), "{status}");
    });
    running.stop();
}

/// A thread that saw nothing of a removal, because no request came meanwhile, counts into the new
/// series of a resource that was added again (ME-72).
#[test]
fn a_resource_that_is_added_again_is_measured_again() {
    let running = Running::start(&["--http-threads=1"]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let all = "/apis/example.com/v1/namespaces/default/gadgets";
        resources.add(gadgets("gadgets")).await.unwrap();
        for _ in 0..2 {
            client.call(Call::get(all)).await.expect(200);
        }
        resources
            .remove("example.com", "v1", "gadgets")
            .await
            .unwrap();
        resources.add(gadgets("gadgets")).await.unwrap();
        client.call(Call::get(all)).await.expect(200);
        let page = client.call(Call::get("/metrics")).await.text();
        let counts = page.lines().filter(|line| {
            line.starts_with("apiserver_request_total{") && line.contains(r#"resource="gadgets""#)
        });
        let counts: Vec<&str> = counts.filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts, ["1"], "{page}");
    });
    running.stop();
}
