//! The metrics of storage, with the names and labels of storage.md 5.4, over both engines.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, body, version};
use crate::servers::etcd::Cluster;

/// A sample of a page: its name, labels and value.
#[derive(Debug)]
struct Sample<'p> {
    name: &'p str,
    labels: &'p str,
    value: f64,
}

fn samples(page: &str) -> Vec<Sample<'_>> {
    let lines = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = key.split_once('{').unwrap_or((key, ""));
            Sample {
                name,
                labels: labels.trim_end_matches('}'),
                value: value.parse().unwrap_or(f64::NAN),
            }
        })
        .collect()
}

/// The value of the sample with this name and these labels.
#[track_caller]
fn value(page: &str, name: &str, labels: &[&str]) -> f64 {
    let all = samples(page);
    let mut found = all.iter().filter(|sample| {
        sample.name == name && labels.iter().all(|label| sample.labels.contains(label))
    });
    let sample = found
        .next()
        .unwrap_or_else(|| panic!("no {name}{labels:?} in\n{page}"));
    sample.value
}

async fn page(daemon: &Daemon) -> String {
    daemon.client().call(Call::get("/metrics")).await.text()
}

/// Waits until the periodic counts are done.
async fn counted(daemon: &Daemon, objects: f64) -> String {
    let begun = Instant::now();
    loop {
        let page = page(daemon).await;
        let resource = r#"resource="configmaps""#;
        // One is set after the other.
        let counts = ["apiserver_storage_objects", "apiserver_resource_objects"];
        let is_counted = counts.iter().all(|name| {
            samples(&page).iter().any(|sample| {
                sample.name == *name && sample.labels.contains(resource) && sample.value == objects
            })
        });
        let size = page.contains("apiserver_storage_size_bytes{");
        if size && is_counted {
            return page;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "never counted:\n{page}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Uses everything that is measured.
async fn use_storage(daemon: &Daemon) {
    let client = daemon.client();
    for name in ["a", "b", "c"] {
        client
            .call(Call::post(CONFIGMAPS, &body(name, "1")))
            .await
            .expect(201);
    }
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let any = format!("{CONFIGMAPS}?resourceVersion=0&labelSelector=x%3Dy");
    client.call(Call::get(&any)).await.expect(200);
    let path = format!("{CONFIGMAPS}/a");
    client.call(Call::get(&path)).await.expect(200);
    client
        .call(Call::merge_patch(&path, &json!({ "data": { "k": "2" } })))
        .await
        .expect(200);
    client
        .call(Call::delete(&format!("{CONFIGMAPS}/b")))
        .await
        .expect(200);
    let exact = format!(
        "{CONFIGMAPS}/c?resourceVersionMatch=Exact&resourceVersion={}",
        version(&list)
    );
    client.call(Call::get(&exact)).await;
    let one = format!(
        "{CONFIGMAPS}?fieldSelector=metadata.name%3Da&resourceVersionMatch=Exact&resourceVersion={}",
        version(&list)
    );
    client.call(Call::get(&one)).await.expect(200);
    let initial = format!(
        "{CONFIGMAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan"
    );
    let mut watch = client.watch(&initial).await;
    watch.event().await;
    // Each has a lease of its own: what lives this short does not share.
    for name in ["e", "f"] {
        let event = json!({
            "metadata": { "name": name },
            "involvedObject": { "namespace": "default" },
        });
        client
            .call(Call::post("/api/v1/namespaces/default/events", &event))
            .await
            .expect(201);
    }
}

async fn measures_everything(daemon: &Daemon, cluster: &str) {
    use_storage(daemon).await;
    let page = counted(daemon, 3.0).await;
    let configmaps = [r#"group="""#, r#"resource="configmaps""#];
    let of = |more: &'static str| [configmaps[0], configmaps[1], more];

    // ME-1, ME-2, ME-70: every call to the store, by what it was.
    for label in [
        r#"operation="get""#,
        r#"operation="list""#,
        r#"operation="create""#,
        r#"operation="update""#,
        r#"operation="delete""#,
    ] {
        assert!(value(&page, "etcd_requests_total", &of(label)) >= 1.0);
        assert!(value(&page, "etcd_request_duration_seconds_count", &of(label)) >= 1.0);
        // ME-1: the bounds of its buckets.
        for bound in ["0.005", "0.1", "1", "60", "+Inf"] {
            let le = format!("le=\"{bound}\"");
            value(&page, "etcd_request_duration_seconds_bucket", &[label, &le]);
        }
    }
    // ME-6: what a lease was used for is told when the next one is granted.
    assert!(value(&page, "etcd_lease_object_counts_count", &[]) >= 1.0);
    assert!(value(&page, "etcd_lease_object_counts_sum", &[]) >= 1.0);
    for bound in ["10", "500", "5000", "+Inf"] {
        let le = format!("le=\"{bound}\"");
        assert!(value(&page, "etcd_lease_object_counts_bucket", &[&le]) >= 1.0);
    }
    // ME-8, ME-9, ME-10: what is stored.
    assert_eq!(
        value(&page, "apiserver_storage_objects", &[configmaps[1]]),
        3.0
    );
    assert_eq!(value(&page, "apiserver_resource_objects", &configmaps), 3.0);
    assert!(value(&page, "apiserver_resource_size_estimate_bytes", &configmaps) > 100.0);
    // ME-11: by the store's name.
    let store = format!("storage_cluster_id=\"{cluster}\"");
    assert!(value(&page, "apiserver_storage_size_bytes", &[&store]) > 1000.0);
    // ME-14, ME-15, ME-16, ME-17: lists that the store served.
    assert!(value(&page, "apiserver_storage_list_total", &configmaps) >= 1.0);
    for name in ["fetched", "evaluated", "returned"] {
        let name = format!("apiserver_storage_list_{name}_objects_total");
        assert!(value(&page, &name, &configmaps) >= 1.0, "{name}");
    }
    // Nothing was decoded in vain.
    let errors = "apiserver_storage_decode_errors_total";
    assert_eq!(value(&page, errors, &configmaps), 0.0);
    // ME-20, ME-21, ME-22: lists that the cache served.
    assert!(value(&page, "apiserver_cache_list_total", &of(r#"index="""#)) >= 2.0);
    assert!(
        value(
            &page,
            "apiserver_cache_list_fetched_objects_total",
            &configmaps
        ) >= 3.0
    );
    assert!(
        value(
            &page,
            "apiserver_cache_list_returned_objects_total",
            &configmaps
        ) >= 3.0
    );
    // ME-23: objects that a watch began with.
    assert!(value(&page, "apiserver_init_events_total", &configmaps) >= 2.0);
    // ME-13, ME-24, ME-25: five events came from the store, into the cache and out of it.
    assert!(
        value(
            &page,
            "apiserver_storage_events_received_total",
            &configmaps
        ) >= 5.0
    );
    assert!(
        value(
            &page,
            "apiserver_watch_cache_events_received_total",
            &configmaps
        ) >= 5.0
    );
    assert!(
        value(
            &page,
            "apiserver_watch_cache_events_dispatched_total",
            &configmaps
        ) >= 5.0
    );
    // ME-4: etcd has told how far it is; the daemon's own store need not.
    let told = value(&page, "etcd_bookmark_total", &configmaps);
    assert!(told >= 1.0 || cluster == "embedded", "{told}");
    // ME-27, ME-31.
    assert!(value(&page, "apiserver_watch_cache_resource_version", &configmaps) >= 5.0);
    assert_eq!(
        value(
            &page,
            "apiserver_watch_cache_initializations_total",
            &configmaps
        ),
        1.0
    );
    // ME-32, ME-33: a consistent list waited for the cache, and was served by it.
    let bounds = ["0.005", "1", "3"].map(|bound| format!("le=\"{bound}\""));
    for bound in &bounds {
        // Few enough that the page stays small (D-32).
        value(
            &page,
            "apiserver_watch_cache_read_wait_seconds_bucket",
            &[bound],
        );
    }
    let served = [r#"success="true""#, r#"fallback="false""#];
    assert!(
        value(
            &page,
            "apiserver_watch_cache_consistent_read_total",
            &served
        ) >= 1.0
    );
}

#[tokio::test]
async fn everything_is_measured_over_the_embedded_engine() {
    // Without the ConfigMap that an issuer brings.
    let poll = [
        "--etcd-count-metric-poll-period=1s",
        "--service-account-issuer=",
    ];
    let daemon = Daemon::with(&[poll[0], poll[1], SHORT]).await;
    measures_everything(&daemon, "embedded").await;
}

/// Too short for leases to be shared.
const SHORT: &str = "--event-ttl=10s";

#[tokio::test]
async fn everything_is_measured_over_etcd() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let poll = [
        "--etcd-count-metric-poll-period=1s",
        "--etcd-db-metric-poll-interval=500ms",
    ];
    let daemon = Daemon::with(&[&servers, poll[0], poll[1], SHORT]).await;
    measures_everything(&daemon, "etcd-0").await;
    // ME-3, OP-20: nothing answers any more; reads of any state go on meanwhile.
    drop(cluster);
    let client = daemon.client();
    let refused = client.call(Call::post(CONFIGMAPS, &body("d", "1"))).await;
    assert_eq!(refused.header("retry-after"), Some("2"));
    refused.refusal(500, "ServerTimeout");
    let any = format!("{CONFIGMAPS}?resourceVersion=0");
    client.call(Call::get(&any)).await.expect(200);
    let page = page(&daemon).await;
    assert!(
        value(
            &page,
            "etcd_request_errors_total",
            &[r#"operation="create""#]
        ) >= 1.0
    );
    let begun = Instant::now();
    for path in ["/readyz", "/healthz"] {
        while client.call(Call::get(path)).await.status != 500 {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{path} says that all is well"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(
        client.call(Call::get("/livez")).await.status,
        200,
        "a restart mends nothing"
    );
    let why = client
        .call(Call::get("/readyz/etcd-readiness"))
        .await
        .text();
    assert!(why.contains("Connection refused"), "{why}");
}

/// Calls `ask` until it has an answer.
async fn until<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "never came: {what}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether the page has a sample of this name.
fn has(page: &str, name: &str) -> bool {
    samples(page).iter().any(|sample| sample.name == name)
}

const OBJECTS: &str = "apiserver_storage_objects";
const SIZE: &str = "apiserver_storage_size_bytes";

/// Writes twice; the path of what there was in between.
async fn written_twice(daemon: &Daemon) -> String {
    let client = daemon.client();
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let first = version(&created.expect(201));
    let again = client.call(Call::post(CONFIGMAPS, &body("b", "1"))).await;
    again.expect(201);
    // The cache knows nothing of before it was filled: the store is asked.
    format!("{CONFIGMAPS}?resourceVersionMatch=Exact&resourceVersion={first}&limit=1")
}

#[tokio::test]
async fn the_intervals_of_etcd_are_kept_sf_10_sf_11_sf_12_sf_13() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[
        &servers,
        "--etcd-compaction-interval=300ms",
        "--etcd-count-metric-poll-period=300ms",
        "--etcd-db-metric-poll-interval=300ms",
        "--etcd-readycheck-timeout=700ms",
        "--etcd-healthcheck-timeout=1100ms",
    ])
    .await;
    let path = written_twice(&daemon).await;
    let client = daemon.client();
    // SF-10: history is given up soon.
    until("compaction", async || {
        let code = client.call(Call::get(&path)).await.status;
        (code == 410).then_some(())
    })
    .await;
    // SF-11, SF-12.
    until("figures", async || {
        let page = page(&daemon).await;
        (has(&page, OBJECTS) && has(&page, SIZE)).then_some(())
    })
    .await;
    // SF-13: each probe waits as long as it was told to.
    cluster.members[0].pause();
    for (check, within) in [
        ("/readyz/etcd-readiness", "700ms"),
        ("/healthz/etcd", "1.1s"),
    ] {
        let said = until(check, async || {
            let answer = client.call(Call::get(check)).await;
            (answer.status == 500).then(|| answer.text())
        })
        .await;
        assert!(
            said.contains(&format!("answered within {within}")),
            "{said}"
        );
    }
    // ME-11: how large it is now nobody can say.
    until("no size", async || {
        (!has(&page(&daemon).await, SIZE)).then_some(())
    })
    .await;
    cluster.members[0].resume();
    until("a size", async || {
        has(&page(&daemon).await, SIZE).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_intervals_of_etcd_can_be_switched_off_sf_10_sf_11_sf_12_me_11() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[
        &servers,
        "--etcd-compaction-interval=0",
        "--etcd-count-metric-poll-period=0",
        "--etcd-db-metric-poll-interval=0",
    ])
    .await;
    let path = written_twice(&daemon).await;
    let embedded = Daemon::with(&["--etcd-count-metric-poll-period=0"]).await;
    written_twice(&embedded).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    daemon.client().call(Call::get(&path)).await.expect(200);
    let over_etcd = page(&daemon).await;
    assert!(
        !has(&over_etcd, OBJECTS) && !has(&over_etcd, SIZE),
        "{over_etcd}"
    );
    // The size is nobody's count: it is known without.
    let over_embedded = page(&embedded).await;
    assert!(
        !has(&over_embedded, OBJECTS) && has(&over_embedded, SIZE),
        "{over_embedded}"
    );
}
