//! Watches of every resource, over both protocols, with resumption and timely ends.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol, body, configmap, version};

#[tokio::test]
async fn events_are_served_like_everything_else() {
    // Deviation D-3: kube-apiserver caches everything but events.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({ "metadata": { "name": name }, "reason": "Tested",
            "involvedObject": { "kind": "ConfigMap", "name": "a", "namespace": "default" } })
    };
    let first = client
        .call(Call::post(path, &event("e1")))
        .await
        .expect(201);
    let cached = format!("{path}?resourceVersion={}", version(&first));
    let list = client.call(Call::get(&cached)).await.expect(200);
    assert_eq!(list["items"][0]["reason"], "Tested");
    let query = format!("{path}?watch=true&resourceVersion={}", version(&first));
    let mut watch = client.watch(&query).await;
    client
        .call(Call::post(path, &event("e2")))
        .await
        .expect(201);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("e2"))
    );
}

#[tokio::test]
async fn each_write_reaches_each_watcher_once_and_in_order_over_both_protocols() {
    // WA-25, API-129.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let start = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={start}");
    let mut watches = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for _ in 0..10 {
            watches.push(daemon.target().client_over(protocol).watch(&path).await);
        }
    }
    // Many streams of one connection too.
    for _ in 0..30 {
        watches.push(client.watch(&path).await);
    }
    let mut wanted = Vec::new();
    for round in 0..20 {
        let name = format!("a{}", round % 5);
        let call = match round {
            0..5 => Call::post(CONFIGMAPS, &body(&name, "0")),
            _ => Call::put(&configmap(&name), &body(&name, &round.to_string())),
        };
        let answer = client.call(call).await;
        assert!(answer.status.is_success(), "{}", answer.text());
        wanted.push(version(&answer.json()));
    }
    for watch in &mut watches {
        let mut seen = Vec::new();
        for _ in 0..wanted.len() {
            seen.push(version(&watch.event().await["object"]));
        }
        assert_eq!(seen, wanted);
    }
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_and_delays_nobody() {
    // API-137, WA-37.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let start = version(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={start}");
    let slow_client = daemon.client_http1();
    let mut slow = slow_client.watch(&path).await;
    let mut quick = client.watch(&path).await;
    let large = "x".repeat(200_000);
    let mut wanted = Vec::new();
    for number in 0..100 {
        let value = format!("{number}-{large}");
        let call = match number {
            0 => Call::post(CONFIGMAPS, &body("a", &value)),
            _ => Call::put(&configmap("a"), &body("a", &value)),
        };
        let answer = client.call(call).await;
        assert!(answer.status.is_success());
        wanted.push(version(&answer.json()));
        let seen = quick.event_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(version(&seen["object"]), wanted[number]);
    }
    // 20 MB later: everything, from wherever it is kept.
    for wanted in wanted {
        assert_eq!(version(&slow.event().await["object"]), wanted);
    }
}

#[tokio::test]
async fn a_watch_ends_in_time_with_a_bookmark_for_who_wants_them() {
    // WA-2, API-130, API-135.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let start = Instant::now();
    let path = format!("{CONFIGMAPS}?watch=true&timeoutSeconds=2&resourceVersion=0");
    assert!(client.watch(&path).await.rest().await.is_empty());
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(6),
        "{took:?}"
    );
    let path = format!("{CONFIGMAPS}?watch=true&timeoutSeconds=3&allowWatchBookmarks=true");
    let path = format!("{path}&resourceVersion=1");
    let events = client.watch(&path).await.rest().await;
    assert!(
        events.iter().all(|event| event["type"] == "BOOKMARK"),
        "{events:?}"
    );
    assert!(!events.is_empty());
}

#[tokio::test]
async fn bookmarks_of_an_idle_resource_move_with_the_store() {
    // PF-17, WA-46: whoever resumes after a quiet hour must not be told that its version is too
    // old; writes elsewhere are told by the bookmark that is due and not each by one of its own.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let start = version(&client.call(Call::get("/api/v1/pods")).await.expect(200));
    let path = format!(
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={start}"
    );
    let mut watch = client.watch(&path).await;
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let put = Call::put(&configmap("a"), &body("a", "2"));
    let newest = version(&client.call(put).await.expect(200));
    let events = watch.rest().await;
    let [bookmark] = &events[..] else {
        panic!("one bookmark is due in four seconds: {events:?}");
    };
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(version(&bookmark["object"]) >= newest, "{bookmark}");
}
