//! Without a watch cache, for all resources or for one, only the speed changes.

use std::time::Duration;

use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};

const OFF: &[&str] = &["--watch-cache=false"];

#[tokio::test]
async fn lists_and_watches_come_from_the_store_sf_7_li_10_wa_19() {
    let daemon = Daemon::with(OFF).await;
    let client = daemon.client();
    for name in ["a", "b", "c"] {
        let created = client.call(Call::post(CONFIGMAPS, &body(name, "1"))).await;
        created.expect(201);
    }
    // The store honours a limit beside version 0, which no cache does (PF-8, TS-15).
    let path = format!("{CONFIGMAPS}?limit=2&resourceVersion=0");
    let page = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let path = format!("{CONFIGMAPS}?limit=2&continue={token}");
    let rest = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(rest["items"][0]["metadata"]["name"], "c");
    assert_eq!(version(&rest), version(&page));

    let path = format!(
        "{CONFIGMAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan"
    );
    let mut watch = client.watch(&path).await;
    for name in ["a", "b", "c"] {
        let event = watch.event().await;
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name))
        );
    }
    let end = watch.event().await;
    assert_eq!(end["type"], "BOOKMARK");
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    let changed = client
        .call(Call::put(&configmap("b"), &body("b", "2")))
        .await;
    let changed = changed.expect(200);
    let gone = client.call(Call::delete(&configmap("a"))).await;
    gone.expect(200);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], version(&event["object"])),
        (&json!("MODIFIED"), version(&changed))
    );
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("a"))
    );
    assert!(version(&event["object"]) > version(&changed), "PF-1");

    assert!(daemon.count("apiserver_storage_list_total").await > 2);
    assert_eq!(daemon.count("apiserver_cache_list_total").await, 0);
    let ready = client.call(Call::get("/readyz?verbose")).await.text();
    assert!(
        ready.contains("readyz check passed") && !ready.contains("[!]"),
        "{ready}"
    );
}

#[tokio::test]
async fn one_resource_may_do_without_and_the_others_keep_theirs_sf_8_sf_9() {
    let daemon = Daemon::with(&[
        "--watch-cache-sizes=configmaps#0,pods#100",
        "--default-watch-cache-size=0",
    ])
    .await;
    let client = daemon.client();
    // The daemon itself lists other resources.
    let count = async |resource: &str| {
        let page = client.call(Call::get("/metrics")).await.text();
        let label = format!("resource=\"{resource}\"");
        let of =
            |line: &&str| line.starts_with("apiserver_cache_list_total{") && line.contains(&label);
        let counts = page
            .lines()
            .filter(of)
            .filter_map(|line| line.rsplit(' ').next());
        counts
            .map(|count| count.parse::<u64>().unwrap())
            .sum::<u64>()
    };
    let lists = async |resource: &str, path: &str| {
        let before = count(resource).await;
        client.call(Call::get(path)).await.expect(200);
        count(resource).await - before
    };
    assert_eq!(lists("configmaps", CONFIGMAPS).await, 0);
    assert_eq!(lists("pods", "/api/v1/pods").await, 1);
    assert_eq!(lists("nodes", "/api/v1/nodes").await, 1);
    let log = daemon.stderr();
    assert!(log.contains("pods#100: caches have no fixed size"), "{log}");
    let unused = "default-watch-cache-size=0: caches have no fixed size, nothing consults it";
    assert!(log.contains(unused), "{log}");
}

#[tokio::test]
async fn namespaces_are_emptied_and_go_all_the_same() {
    let daemon = Daemon::with(OFF).await;
    let client = daemon.client();
    let namespace = json!({ "metadata": { "name": "n" } });
    let created = client
        .call(Call::post("/api/v1/namespaces", &namespace))
        .await;
    created.expect(201);
    let path = "/api/v1/namespaces/n/configmaps";
    client
        .call(Call::post(path, &body("a", "1")))
        .await
        .expect(201);
    client
        .call(Call::delete("/api/v1/namespaces/n"))
        .await
        .expect(200);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while client.call(Call::get("/api/v1/namespaces/n")).await.status != 404 {
        assert!(tokio::time::Instant::now() < deadline, "it never went");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = client.call(Call::get(path)).await.expect(200);
    assert_eq!(left["items"], json!([]));
}

#[tokio::test]
async fn watches_end_politely_when_the_daemon_is_stopped() {
    let mut daemon = Daemon::with(OFF).await;
    let client = daemon.client();
    let mut watch = client
        .watch(&format!("{CONFIGMAPS}?watch=true&resourceVersion=1"))
        .await;
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    created.expect(201);
    assert_eq!(watch.event().await["type"], "ADDED");
    let stopping = daemon.stop(rustix::process::Signal::TERM);
    let ((), rest) = tokio::join!(stopping, watch.rest());
    assert_eq!(rest, Vec::<serde_json::Value>::new());
    assert!(!daemon.stderr().contains("cut at the end of the drain"));
}
