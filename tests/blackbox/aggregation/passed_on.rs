//! Requests that are passed on to an extension, and its answers (CN-28 to CN-34, CN-36).

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::extension::{APISERVICES, Extension};
use super::raw_server::RawServer;
use super::{GROUP, PATIENCE, condition, install_at, until, until_reason};
use crate::harness::{Call, Daemon, Protocol};

const NAME: &str = "v1.a.example";
const WITHIN: &str = "/apis/a.example/v1/namespaces/default";

/// A daemon with these users, and an extension that is available.
async fn with_extension(users: &str) -> (Daemon, Extension) {
    let daemon = Daemon::with_users(users, &[]).await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.install(&client, GROUP).await;
    until_reason(&client, NAME, "Passed").await;
    (daemon, extension)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_learns_the_user_and_no_credentials_cn_28_cn_30_cn_31() {
    let users = "t-ada,ada,u-1,\"crew,system:masters\"\nt-bob,bob,u-2\n";
    let (daemon, extension) = with_extension(users).await;
    let path = format!("{WITHIN}/echoes/e/some%2Fpath/?b=2&a=1&a=%20x&c=%zz&d=1;e=2");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let ada = daemon.target().with_token("t-ada").client_over(protocol);
        let mut call = Call::post(&path, &json!({"a": 1}));
        for (name, value) in [
            ("x-own", "passed"),
            ("x-remote-user", "liar"),
            ("x-remote-group", "liars"),
            ("x_remote_user", "liar"),
            ("x-remote-extra-a", "liar"),
            ("x-forwarded-for", "1.2.3.4"),
            ("user-agent", "tester/1"),
            ("accept-encoding", "identity"),
            ("cookie", "a=b"),
            ("te", "trailers"),
        ] {
            call = call.header(name, value);
        }
        if protocol == Protocol::Http1 {
            call = call.header("connection", "x-hop");
            call = call.header("x-hop", "gone").header("keep-alive", "gone");
        }
        let answer = ada.call(call).await;
        let audit_id = answer.header("audit-id").unwrap().to_owned();
        let caching: Vec<_> = answer.headers.get_all("cache-control").iter().collect();
        assert_eq!(caching, ["no-cache, private"]);
        let echo = answer.expect(200);
        let host = format!("127.0.0.1:{}", extension.port);
        let mut expected = json!({
            "accept-encoding": "identity", "audit-id": audit_id,
            "content-type": "application/json", "cookie": "a=b", "te": "trailers",
            "user-agent": "tester/1", "x-own": "passed",
            "x-forwarded-for": "1.2.3.4, 127.0.0.1", "x-forwarded-host": host,
            "x-forwarded-proto": "https",
            "x-forwarded-uri": format!("{WITHIN}/echoes/e/some/path/"),
            "x-remote-group": "crew,system:masters,system:authenticated",
            "x-remote-uid": "u-1", "x-remote-user": "ada",
        });
        expected["content-length"] = "7".into();
        assert_eq!(echo["headers"], expected, "{protocol:?}");
        assert_eq!(echo["method"], "POST");
        assert_eq!(echo["body"], "{\"a\":1}");
        assert_eq!(echo["path"], format!("{WITHIN}/echoes/e/some/path/"));
        assert_eq!(echo["query"], "a=1&a=+x&b=2");
    }
    // Somebody else's name arrives, and not who has said it.
    let admin = daemon.client();
    let call = Call::get(&format!("{WITHIN}/echoes/e"))
        .header("impersonate-user", "jane")
        .header("impersonate-group", "system:masters")
        .header("impersonate-extra-Example.com%2fReason", "why not");
    let echo = admin.call(call).await.expect(200);
    let headers = echo["headers"].as_object().unwrap();
    assert_eq!(headers["x-remote-user"], "jane");
    assert_eq!(headers["x-remote-extra-example.com%2freason"], "why not");
    assert_eq!(
        headers["x-remote-group"],
        "system:masters,system:authenticated"
    );
    let foreign = headers.keys().filter(|name| {
        name.starts_with("impersonate") || *name == "authorization" || *name == "x-remote-uid"
    });
    assert_eq!(foreign.count(), 0, "{echo}");
    // Authorization is done here, and with it all that the path says. 403 comes first.
    let bob = daemon.target().with_token("t-bob").client();
    let refused = bob.call(Call::get(&format!("{WITHIN}/flunders/x"))).await;
    let status = refused.refusal(403, "Forbidden");
    let message = "flunders.a.example \"x\" is forbidden: User \"bob\" cannot get resource \
                   \"flunders\" in API group \"a.example\" in the namespace \"default\"";
    assert!(
        status["message"].as_str().unwrap().starts_with(message),
        "{status}"
    );
    let anonymous = daemon.target().anonymous().client();
    let refused = anonymous
        .call(Call::get(&format!("{WITHIN}/flunders")))
        .await;
    assert_eq!(refused.status, 403);
    let nobody = daemon.target().with_token("wrong").client();
    assert_eq!(
        nobody
            .call(Call::get(&format!("{WITHIN}/flunders")))
            .await
            .status,
        401
    );
    assert_eq!(extension.asked(&format!("{WITHIN}/flunders")).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_one_is_a_503_after_the_403_and_a_deleted_one_a_404_cn_29_cn_36() {
    let (daemon, extension) = with_extension("t-bob,bob,u-2\n").await;
    let client = daemon.client();
    let object = json!({"metadata": {"name": "a"}, "spec": {"size": 1}});
    let flunders = format!("{WITHIN}/flunders");
    client
        .call(Call::post(&flunders, &object))
        .await
        .expect(201);
    let mut watch = client.watch(&format!("{flunders}?watch=true")).await;
    extension.tell(|told| told.answer = Some((503, "tired".to_owned())));
    let again = json!({"metadata": {"annotations": {"again": "1"}}});
    let at = format!("{APISERVICES}/{NAME}");
    // While it counts as available, its own answer is passed on.
    let answer = client.call(Call::get(&flunders)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (503, "tired".to_owned())
    );
    client
        .call(Call::merge_patch(&at, &again))
        .await
        .expect(200);
    until_reason(&client, NAME, "FailedDiscoveryCheck").await;
    for path in [
        "/apis/a.example/v1".to_owned(),
        "/apis/a.example/v1/".to_owned(),
        flunders.clone(),
        format!("{flunders}/a?watch=true"),
    ] {
        let answer = client.call(Call::get(&path)).await;
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.text(), "service unavailable\n", "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        let bob = daemon.target().with_token("t-bob").client();
        let is_open = path.matches('/').count() < 5;
        let code = if is_open { 503 } else { 403 };
        assert_eq!(bob.call(Call::get(&path)).await.status, code, "{path}");
    }
    let page = client.call(Call::get("/metrics")).await.text();
    let ended = page.lines().find(|line| {
        line.starts_with("apiserver_request_terminations_total{")
            && line.contains("component=\"aggregator\"")
            && line.contains("verb=\"LIST\"")
            && line.contains("code=\"503\"")
    });
    assert!(ended.is_some(), "{page}");
    extension.tell(|told| told.answer = None);
    until_reason(&client, NAME, "Passed").await;
    client.call(Call::delete(&at)).await.expect(200);
    for path in ["/apis/a.example", "/apis/a.example/v1", &flunders] {
        let answer = client.call(Call::get(path)).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert_eq!(answer.text(), "404 page not found\n", "{path}");
    }
    // A watch goes on.
    client
        .call(Call::post(APISERVICES, &extension.api_service(GROUP, "v1")))
        .await
        .expect(201);
    until_reason(&client, NAME, "Passed").await;
    let change = Call::merge_patch(&format!("{flunders}/a"), &json!({"spec": {"size": 2}}));
    client.call(change).await.expect(200);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["size"]),
        (&json!("MODIFIED"), &json!(2))
    );
    // One that is made local goes to the own handlers.
    let local = json!({"spec": {"service": null, "caBundle": null}});
    client
        .call(Call::merge_patch(&at, &local))
        .await
        .expect(200);
    assert_eq!(client.call(Call::get(&flunders)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_stream_as_they_come_cn_32() {
    let (daemon, extension) = with_extension("").await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let path = format!("{WITHIN}/streams/3");
        let lines = client.lines(Call::get(&path));
        extension.release();
        let mut lines = lines.await.unwrap();
        for number in 0..3 {
            let next = tokio::time::timeout(PATIENCE, lines.next()).await.unwrap();
            assert_eq!(next.unwrap().unwrap(), format!("chunk {number}"));
            extension.release();
        }
        assert_eq!(lines.next().await.unwrap(), None);
        // The last release was one too many.
        let mut rest = client
            .lines(Call::get(&format!("{WITHIN}/streams/1")))
            .await
            .unwrap();
        assert_eq!(rest.next().await.unwrap().unwrap(), "chunk 0");
    }
    // A code and headers of its own, and a Status as it is.
    let answer = daemon
        .client()
        .call(Call::get(&format!("{WITHIN}/answers/418")))
        .await;
    assert_eq!(answer.expect(418)["message"], "as told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_pass_both_ways_and_slow_readers_stop_the_sender_cn_31_cn_32() {
    let daemon = Daemon::start().await;
    let (client, server) = (daemon.client(), RawServer::start().await);
    install_at(&client, GROUP, server.port).await;
    // Longer than any body that this server takes itself.
    let body = Bytes::from(vec![b'x'; 24 << 20]);
    for (number, protocol) in [Protocol::Http1, Protocol::Http2].into_iter().enumerate() {
        let client = daemon.target().client_over(protocol);
        let call = Call::new("PUT", &format!("{WITHIN}/things/a")).body("text/plain", body.clone());
        client.call(call).await.expect(200);
        assert_eq!(server.received(), (number as u64 + 1) * body.len() as u64);
    }
    let peak = daemon.peak();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        // Those who read get it all as fast as they read.
        let reader = daemon.target().client_over(protocol);
        let call = Call::get(&format!("{WITHIN}/endless?watch=1"));
        let mut lines = reader.lines(call.clone()).await.unwrap();
        for _ in 0..200 {
            assert_eq!(lines.next().await.unwrap().unwrap().len(), 65535);
        }
        drop(lines);
        // The client is gone, and so is the request.
        while server.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Those who do not read hold the sender up.
        let idle = daemon.target().narrow(65536).client_over(protocol);
        let held = idle.lines(call).await.unwrap();
        let mut before = u64::MAX;
        while server.sent() != before {
            before = server.sent();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(server.open(), 1);
        drop(held);
        drop(idle);
        while server.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let grown = daemon.peak() - peak;
    assert!(
        grown < 32.0,
        "{grown} MiB more for bodies that are passed on"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_ends_a_request_and_discovery_has_5_seconds_cn_34() {
    let (daemon, extension) = with_extension("").await;
    extension.tell(|told| told.delay = Duration::from_secs(3600));
    let client = daemon.client();
    let path = format!("{WITHIN}/flunders?timeout=1s");
    let answer = client.call(Call::get(&path)).await;
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let status = answer.expect(504);
    assert_eq!(status["reason"], "Timeout", "{status}");
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_eq!(status["message"], message, "{status}");
    let answer = client.call(Call::get("/apis/a.example/v1")).await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.text(),
        "error trying to reach service: context deadline exceeded\n"
    );
    let wrong = client
        .call(Call::get(&format!("{WITHIN}/flunders?timeout=x")))
        .await;
    assert_eq!(wrong.status, 400);
    assert_eq!(condition(&client, NAME).await["type"], "Available");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passed_on_requests_are_audited_without_bodies_and_counted_cn_28() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (
        folder.path().join("policy.yaml"),
        folder.path().join("audit.log"),
    );
    let rules = "{\"apiVersion\": \"audit.k8s.io/v1\", \"kind\": \"Policy\", \"rules\": [\
                 {\"level\": \"RequestResponse\", \"resources\": [{\"group\": \"a.example\"}]},\
                 {\"level\": \"None\"}]}";
    std::fs::write(&policy, rules).unwrap();
    let daemon = Daemon::with(&[
        "--audit-policy-file",
        policy.to_str().unwrap(),
        "--audit-log-path",
        log.to_str().unwrap(),
    ])
    .await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.install(&client, GROUP).await;
    until_reason(&client, NAME, "Passed").await;
    let flunders = format!("{WITHIN}/flunders");
    let object = json!({"metadata": {"name": "a"}, "spec": {"size": 1}});
    client
        .call(Call::post(&flunders, &object))
        .await
        .expect(201);
    let watch = client.watch(&format!("{flunders}?watch=true")).await;
    drop(watch);
    let stages = || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        let events = lines
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events: Vec<Value> = events.collect();
        let of = |verb: &str| {
            let of = events.iter().filter(|event| event["verb"] == verb);
            of.map(|event| event["stage"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let bodies = events
            .iter()
            .any(|event| !event["requestObject"].is_null() || !event["responseObject"].is_null());
        (of("create"), of("watch"), bodies, events)
    };
    loop {
        let (create, watch, has_bodies, events) = stages();
        if create.len() == 2 && watch.len() == 3 {
            assert_eq!(create, ["RequestReceived", "ResponseComplete"]);
            assert_eq!(
                watch,
                ["RequestReceived", "ResponseStarted", "ResponseComplete"]
            );
            assert!(!has_bodies, "{events:?}");
            let last = events
                .iter()
                .find(|event| event["stage"] == "ResponseComplete")
                .unwrap();
            assert_eq!(last["responseStatus"]["code"], 201);
            assert_eq!(last["objectRef"]["resource"], "flunders");
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until(
        &client,
        || Call::get("/metrics"),
        |page| {
            let text = page.text();
            let mut lines = text.lines();
            lines.any(|line| {
                line.starts_with("apiserver_request_total{verb=\"POST\"")
                    && line.contains("group=\"a.example\",version=\"v1\"")
                    && line.contains("code=\"201\"")
            })
        },
    )
    .await;
}
