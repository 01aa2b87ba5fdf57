//! Users who try to break the daemon: odd paths, altered tokens, races. Every request gets a
//! response that Kubernetes clients understand, and the remaining state is consistent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap};

#[tokio::test]
async fn odd_paths_lead_nowhere_else() {
    // API-3, API-12, API-200.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let long = format!("{CONFIGMAPS}/{}", "a".repeat(5_000));
    for (path, code) in [
        ("//", 404),
        ("/healthz/", 404),
        ("/openapi/v2/", 404),
        ("/metrics/", 404),
        ("/version/", 200),
        ("/api/", 200),
        ("/apis/", 200),
        ("/apis/apps/v1/", 200),
        ("/api//v1", 404),
        ("/%", 400),
        ("/%zz", 400),
        ("/api/v1/watch", 500),
        ("/api/v1/namespaces/default/configmaps/..", 400),
        ("/api/v1/namespaces/default/configmaps/%2e%2e", 400),
        ("/api/v1/namespaces/default/configmaps/a%2fb", 404),
        ("/api/v1/namespaces/default/configmaps/../secrets", 404),
        // A path is decoded before it is split.
        ("/api/v1/namespaces/default%2fconfigmaps", 200),
        ("/api/v1/namespaces/default/configmaps/%ff", 404),
        ("/api/v1/namespaces/default/configmaps/%00", 404),
        ("/API/v1", 404),
        (long.as_str(), 404),
    ] {
        let answer = client.call(Call::get(path)).await;
        let shown: String = path.chars().take(80).collect();
        assert_eq!(answer.status.as_u16(), code, "{shown}: {}", answer.text());
    }
    let call = Call::get("/api/v1/namespaces/default/configmaps/..");
    let status = client.call(call).await.refusal(400, "BadRequest");
    let message = "Name parameter invalid: \"..\": may not be '..'";
    assert_eq!(status["message"], message);
}

#[tokio::test]
async fn requests_that_are_no_http_are_refused_and_nothing_else_is() {
    let daemon = Daemon::start().await;
    let token = daemon.target().token.unwrap();
    let head = format!("GET {CONFIGMAPS} HTTP/1.1\r\nauthorization: Bearer {token}\r\n");
    let post = head.replacen("GET", "POST", 1);
    for request in [
        "GET\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "GET  / HTTP/1.1\r\n\r\n".to_owned(),
        "\r\n\r\n\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)),
        format!("{head}x: {}\r\n\r\n", "a".repeat(100_000)),
        format!("{head}bad header\r\n\r\n"),
        format!("{head}x\u{1}: y\r\n\r\n"),
        format!("{post}content-length: -1\r\n\r\n"),
        format!("{post}content-length: 99999999999999999999\r\n\r\n"),
        format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef"),
        format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n"),
        format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
        format!("{post}transfer-encoding: gzip\r\n\r\n"),
        format!("{post}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        // The connection may be closed before all is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(20), reading)
            .await
            .expect("the connection ends");
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{request:.80}: {answer:.300}"
        );
    }
    let list = daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn altered_continue_tokens_are_refused_or_pages_of_the_same_collection() {
    // LI-46.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    for path in [CONFIGMAPS, elsewhere] {
        for name in ["a", "b", "c"] {
            client
                .call(Call::post(path, &body(name, "1")))
                .await
                .expect(201);
        }
    }
    let page = client
        .call(Call::get(&format!("{CONFIGMAPS}?limit=1")))
        .await
        .expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    for at in 0..token.len() {
        for other in ["A", "z", "_", "%00", ""] {
            let altered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            let call = Call::get(&format!("{CONFIGMAPS}?continue={altered}"));
            let answer = client.call(call).await;
            match answer.status.as_u16() {
                200 => {
                    for item in answer.json()["items"].as_array().unwrap() {
                        assert_eq!(item["metadata"]["namespace"], "default", "{altered}");
                    }
                }
                400 | 410 | 504 => {}
                code => panic!("{code} for {altered}: {}", answer.text()),
            }
        }
    }
}

#[tokio::test]
async fn of_many_who_delete_one_object_one_does() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for _ in 0..10 {
        client
            .call(Call::post(CONFIGMAPS, &body("a", "1")))
            .await
            .expect(201);
        let deletions = (0..16).map(|_| client.call(Call::delete(&configmap("a"))));
        let mut codes = BTreeMap::<u16, usize>::new();
        for answer in futures_util::future::join_all(deletions).await {
            *codes.entry(answer.status.as_u16()).or_default() += 1;
        }
        assert_eq!(codes, BTreeMap::from([(200, 1), (404, 15)]));
    }
}

#[tokio::test]
async fn who_creates_in_a_namespace_that_goes_leaves_nothing_behind() {
    // API-225.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let namespaces = "/api/v1/namespaces";
    let namespace = json!({ "metadata": { "name": "going" } });
    let path = format!("{namespaces}/going/configmaps");
    for round in 0..3 {
        client
            .call(Call::post(namespaces, &namespace))
            .await
            .expect(201);
        let creations = (0..60).map(|number| {
            let (client, path) = (&client, &path);
            async move {
                let object = body(&format!("c{number}"), "1");
                client.call(Call::post(path, &object)).await
            }
        });
        let going = format!("{namespaces}/going");
        let deletion = client.call(Call::delete(&going));
        let (answers, deletion) = tokio::join!(futures_util::future::join_all(creations), deletion);
        assert_eq!(deletion.status.as_u16(), 200, "{}", deletion.text());
        for answer in answers {
            let code = answer.status.as_u16();
            assert!(matches!(code, 201 | 403 | 404), "{code}: {}", answer.text());
        }
        let start = std::time::Instant::now();
        while client.call(Call::get(&going)).await.status != 404 {
            assert!(start.elapsed().as_secs() < 60, "round {round}: it stays");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let left = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(left["items"], json!([]), "round {round}");
    }
}

#[tokio::test]
async fn names_may_be_as_long_as_they_may() {
    // API-199, API-200.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let longest = "a".repeat(253);
    client
        .call(Call::post(CONFIGMAPS, &body(&longest, "1")))
        .await
        .expect(201);
    client
        .call(Call::get(&configmap(&longest)))
        .await
        .expect(200);
    client
        .call(Call::post(CONFIGMAPS, &body(&"a".repeat(254), "1")))
        .await
        .refusal(422, "Invalid");
    for base in ["a".repeat(253), "b".repeat(400), "c-".to_owned()] {
        let object = json!({ "metadata": { "generateName": base } });
        let answer = client.call(Call::post(CONFIGMAPS, &object)).await;
        match base.len() {
            400 => {
                answer.refusal(422, "Invalid");
            }
            _ => {
                let created = answer.expect(201);
                let name = created["metadata"]["name"].as_str().unwrap();
                // The base before the five random letters is cut.
                assert_eq!(name.len(), base.len().min(58) + 5, "{name}");
            }
        }
    }
    let label = json!({ "metadata": { "name": "n".repeat(63) } });
    client
        .call(Call::post("/api/v1/namespaces", &label))
        .await
        .expect(201);
    let label = json!({ "metadata": { "name": "n".repeat(64) } });
    client
        .call(Call::post("/api/v1/namespaces", &label))
        .await
        .refusal(422, "Invalid");
}

#[tokio::test]
async fn a_patch_may_replace_what_is_not_there() {
    // API-161.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let patch = |operations: Value| {
        Call::new("PATCH", &configmap("a"))
            .body("application/json-patch+json", operations.to_string())
    };
    let replace = json!([
        { "op": "test", "path": "/data/new", "value": null },
        { "op": "replace", "path": "/data/new", "value": "2" },
    ]);
    let patched = client.call(patch(replace.clone())).await.expect(200);
    assert_eq!(patched["data"], json!({ "k": "1", "new": "2" }));
    // The label exists now.
    client.call(patch(replace)).await.refusal(422, "Invalid");
}
