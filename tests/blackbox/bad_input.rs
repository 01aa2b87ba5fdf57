//! Hostile and wrong input. Clients get the expected response each time, and the daemon keeps
//! running.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::upgrades::Asked;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Protocol, body, configmap, version};

fn raw(text: impl Into<bytes::Bytes>) -> Call {
    Call::new("POST", CONFIGMAPS).body("application/json", text.into())
}

fn yaml(text: impl Into<bytes::Bytes>) -> Call {
    Call::new("POST", CONFIGMAPS).body("application/yaml", text.into())
}

async fn still_works(client: &Client) {
    client
        .call(Call::post(CONFIGMAPS, &body("alive", "1")))
        .await
        .expect(201);
    client
        .call(Call::delete(&configmap("alive")))
        .await
        .expect(200);
}

#[tokio::test]
async fn malformed_bodies_are_bad_requests() {
    // API-89.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let deep = format!(
        "{{\"data\":{}1{}}}",
        "{\"a\":".repeat(100_000),
        "}".repeat(100_000)
    );
    let brackets = "[".repeat(200_000);
    for text in [
        "{",
        "nothing",
        "\u{0}",
        "{\"a\":1,}",
        "NaN",
        "{\"metadata\":{\"name\":}}",
    ]
    .iter()
    .map(ToString::to_string)
    .chain([deep, brackets])
    {
        client.call(raw(text)).await.refusal(400, "BadRequest");
    }
    still_works(&client).await;
}

/// API-63: what is no character becomes one that says so, in objects and in patches. YAML with such
/// is refused.
#[tokio::test]
async fn what_is_no_character_is_replaced_in_json() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let text = br#"{"metadata":{"name":"odd"},"data":{"a":"x-","b":"\ud800y"}}"#;
    let text = text.map(|byte| if byte == b'-' { 0xff } else { byte });
    let created = client.call(raw(text.to_vec())).await.expect(201);
    let wanted = json!({ "a": "x\u{fffd}", "b": "\u{fffd}y" });
    assert_eq!(created["data"], wanted);
    let patch = |kind: &str, body: &str| {
        let path = format!("{}?fieldManager=me", configmap("odd"));
        let body: Vec<u8> = body
            .bytes()
            .map(|byte| if byte == b'~' { 0xfe } else { byte })
            .collect();
        Call::new("PATCH", &path).body(kind, body)
    };
    let change = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"c":"~\udc00"}}"#;
    let operations = r#"[{"op":"add","path":"/data/c","value":"~\udc00"}]"#;
    for (kind, body) in [
        ("application/merge-patch+json", change),
        ("application/strategic-merge-patch+json", change),
        ("application/json-patch+json", operations),
    ] {
        let patched = client.call(patch(kind, body)).await.expect(200);
        assert_eq!(patched["data"]["c"], "\u{fffd}\u{fffd}", "{kind}");
    }
    for text in ["~", r"\ud800"] {
        let body = change.replace(r"~\udc00", text);
        let call = patch("application/apply-patch+yaml", &body);
        client.call(call).await.refusal(400, "BadRequest");
    }
    let named = br#"{"metadata":{"name":"~"}}"#.map(|byte| if byte == b'~' { 0xff } else { byte });
    client
        .call(raw(named.to_vec()))
        .await
        .refusal(422, "Invalid");
    still_works(&client).await;
}

/// API-170, API-171: what can't be applied is refused, and nothing is stored.
#[tokio::test]
async fn what_cannot_be_applied_is_refused() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = format!("{}?fieldManager=me", configmap("applied"));
    for (text, code) in [
        ("[]", 400),
        ("x: ]", 400),
        ("kind: Secret", 400),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {managedFields: []}}",
            400,
        ),
        ("{apiVersion: v1, kind: ConfigMap, nonsense: 1}", 500),
        ("{apiVersion: v1, kind: ConfigMap, data: {a: 5}}", 500),
    ] {
        let call = Call::new("PATCH", &path).body("application/apply-patch+yaml", text);
        client.call(call).await.expect(code);
    }
    let absent = client.call(Call::get(&configmap("applied"))).await;
    absent.refusal(404, "NotFound");
    still_works(&client).await;
}

#[tokio::test]
async fn malformed_yaml_is_a_bad_request_and_alias_bombs_cost_nothing() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for text in [
        "a: b: c",
        "\"unclosed",
        "- [",
        "a: *nowhere",
        "%YAML 9\n---\n%",
        "\tx: y",
    ] {
        client.call(yaml(text)).await.refusal(400, "BadRequest");
    }
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(","));
    }
    let start = Instant::now();
    client.call(yaml(bomb)).await.refusal(400, "BadRequest");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        start.elapsed()
    );
    let deep = "? ".repeat(50_000);
    client.call(yaml(deep)).await.refusal(400, "BadRequest");
    still_works(&client).await;
}

#[tokio::test]
async fn numbers_are_exact_and_the_last_of_two_equal_values_counts() {
    // API-63.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let text = r#"{"metadata":{"name":"n"},"revision":1,
        "metadata":{"labels":{"twice":"1","twice":"2"}},
        "data":{"large":9223372036854775807,"small":-9223372036854775808,
        "unsigned":18446744073709551615,"float":1.5}}"#;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let call = Call::new("POST", path).body("application/json", text);
    let answer = client.call(call).await;
    let warnings = answer.headers.get_all("warning").iter();
    let warnings: Vec<&str> = warnings.map(|warning| warning.to_str().unwrap()).collect();
    assert_eq!(
        warnings,
        [
            r#"299 - "duplicate field \"metadata\"""#,
            r#"299 - "duplicate field \"metadata.labels.twice\"""#
        ]
    );
    let stored = answer.expect(201);
    let text = client.call(Call::get(&format!("{path}/n"))).await.text();
    for number in [
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
    ] {
        assert!(text.contains(number), "{number} is not in {text}");
    }
    assert_eq!(stored["data"]["float"], 1.5);
    assert_eq!(stored["metadata"]["labels"]["twice"], "2");
}

#[tokio::test]
async fn what_the_body_says_must_fit_the_path() {
    // API-88, API-92, API-99.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let cases = [
        json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" } }),
        json!({ "kind": "ConfigMap", "apiVersion": "v2", "metadata": { "name": "a" } }),
        json!({ "kind": "Nonsense", "apiVersion": "v1", "metadata": { "name": "a" } }),
        json!({ "metadata": { "name": "a", "namespace": "elsewhere" } }),
        json!({ "metadata": { "name": 1 } }),
        json!({ "metadata": [] }),
    ];
    for case in &cases {
        client
            .call(Call::post(CONFIGMAPS, case))
            .await
            .refusal(400, "BadRequest");
    }
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let put = Call::put(&configmap("a"), &body("b", "1"));
    client.call(put).await.refusal(400, "BadRequest");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_over_both_protocols() {
    // API-21: 413 from one byte over 3 MiB, whether the length is said before or not.
    let daemon = Daemon::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let mut large = br#"{"metadata":{"name":"large"}}"#.to_vec();
        large.resize(3 * 1024 * 1024 + 1, b' ');
        client
            .call(raw(large))
            .await
            .refusal(413, "RequestEntityTooLarge");
        still_works(&client).await;
    }
}

#[tokio::test]
async fn unknown_media_types_paths_and_methods_are_refused() {
    // API-10, API-12, API-55, API-56.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for kind in ["text/plain", "x", "a/b/c;;"] {
        let call = Call::new("POST", CONFIGMAPS).body(kind, "{}");
        client.call(call).await.refusal(415, "UnsupportedMediaType");
    }
    // API-58: protobuf is a known type, and this is none.
    let call = Call::new("POST", CONFIGMAPS).body("application/vnd.kubernetes.protobuf", "{}");
    client.call(call).await.refusal(400, "BadRequest");
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    for kind in ["application/json", "text/plain"] {
        let call = Call::new("PATCH", &configmap("a")).body(kind, "{}");
        client.call(call).await.refusal(415, "UnsupportedMediaType");
    }
    let call = Call::get(CONFIGMAPS).header("accept", "image/png");
    client.call(call).await.refusal(406, "NotAcceptable");
    client
        .call(Call::get("/api/v1/nonsense"))
        .await
        .refusal(404, "NotFound");
    for path in [
        "/nonsense",
        "/apis/nonsense.example.com/v1/x",
        "/api/v1/../../etc/passwd",
    ] {
        let answer = client.call(Call::get(path)).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    client
        .call(Call::put(CONFIGMAPS, &json!({})))
        .await
        .refusal(405, "MethodNotAllowed");
    for path in [
        "/%",
        "/api/v1/namespaces/%zz/configmaps",
        "/api/v1/namespaces/%ff/configmaps/a",
    ] {
        let status = client.call(Call::get(path)).await.status.as_u16();
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn bad_selectors_tokens_and_versions_are_refused() {
    // API-86, API-121, API-124, LI-43.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for query in [
        "labelSelector=a=b=c",
        "labelSelector=a%20in%20(",
        "labelSelector=-a",
        "fieldSelector=x",
        "fieldSelector=data.k=1",
        "continue=nonsense",
        "continue=e30",
        "limit=x",
        "resourceVersion=abc",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999999",
        "timeoutSeconds=x",
    ] {
        let answer = client
            .call(Call::get(&format!("{CONFIGMAPS}?{query}")))
            .await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        answer.refusal(400, "BadRequest");
    }
    let long = format!("labelSelector={}", "a,".repeat(20_000));
    let status = client
        .call(Call::get(&format!("{CONFIGMAPS}?{long}")))
        .await
        .status
        .as_u16();
    assert!((400..500).contains(&status), "{status}");
    for query in ["resourceVersionMatch=Exact", "sendInitialEvents=true"] {
        let call = Call::get(&format!("{CONFIGMAPS}?{query}"));
        client.call(call).await.refusal(422, "Invalid");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn a_version_of_the_future_is_a_timeout_with_its_cause() {
    // ST-13, API-122, WC-30, WA-13, PF-12: 504 with the cause that client-go knows, in a list, a
    // get and a watch, after a wait for it to come about.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    for path in [CONFIGMAPS.to_owned(), configmap("a")] {
        let call = Call::get(&format!("{path}?resourceVersion=999999999"));
        let start = Instant::now();
        let answer = client.call(call).await;
        assert!(
            start.elapsed() >= Duration::from_secs(2),
            "nobody waited for it"
        );
        assert_eq!(answer.header("retry-after"), Some("1"));
        let status = answer.refusal(504, "Timeout");
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
    }
    let path = format!(
        "{CONFIGMAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &resourceVersion=999999999"
    );
    let event = client.watch(&path).await.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(504))
    );
}

#[tokio::test]
async fn a_compacted_version_is_expired_in_lists_pages_and_watches() {
    // LI-50, LI-51, LI-52, WA-30, PF-10, PF-12, PF-13: 410, in a watch as an event; a token comes
    // with another one to go on with.
    let mut daemon = Daemon::with(&["--retention-age", "1s"]).await;
    let client = daemon.client();
    let first = client
        .call(Call::post(CONFIGMAPS, &body("a", "0")))
        .await
        .expect(201);
    client
        .call(Call::post(CONFIGMAPS, &body("b", "0")))
        .await
        .expect(201);
    let page = client
        .call(Call::get(&format!("{CONFIGMAPS}?limit=1")))
        .await
        .expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let exact = format!(
        "resourceVersion={}&resourceVersionMatch=Exact",
        version(&first)
    );
    let start = Instant::now();
    let status = loop {
        let value = start.elapsed().as_nanos().to_string();
        client
            .call(Call::put(&configmap("a"), &body("a", &value)))
            .await
            .expect(200);
        daemon.compact().await;
        let answer = client
            .call(Call::get(&format!("{CONFIGMAPS}?{exact}")))
            .await;
        if answer.status != 200 {
            break answer.refusal(410, "Expired");
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "nothing is ever forgotten"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("for the provided list is too old"),
        "{message}"
    );

    let status = client
        .call(Call::get(&format!("{CONFIGMAPS}?continue={token}")))
        .await;
    let status = status.refusal(410, "Expired");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("provided continue parameter is too old"),
        "{message}"
    );
    let fresh = status["metadata"]["continue"]
        .as_str()
        .expect("a token to go on with");
    let rest = client
        .call(Call::get(&format!("{CONFIGMAPS}?continue={fresh}")))
        .await
        .expect(200);
    let names: Vec<&str> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["b"]);

    // The restart removes the history that memory still holds.
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let path = format!(
        "{CONFIGMAPS}?watch=true&resourceVersion={}",
        version(&first)
    );
    let mut watch = client.watch(&path).await;
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(watch.rest().await.is_empty());
    // WA-7.
    let asked = Asked::web_socket(&path).header("Origin", "https://example.com");
    let mut watch = asked.send(&daemon.target()).await.unwrap();
    assert_eq!(watch.event().await, event);
    assert_eq!(watch.closed().await, 1000);
}

#[tokio::test]
async fn slow_and_idle_handshakes_and_headers_are_cut_off() {
    let limits = [
        "--handshake-timeout",
        "1s",
        "--header-timeout",
        "1s",
        "--idle-timeout",
        "2s",
    ];
    let daemon = Daemon::with(&limits).await;
    let address = daemon.target().address;
    // A connection without a handshake, one with half a request line, one that feeds a header
    // byte after byte: each must be closed, and quickly enough that no fleet of them adds up.
    let silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut half = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")
        .await
        .unwrap();
    let nothing = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    let h2 = daemon.target().tls(&[b"h2"]).await.unwrap();
    let closed = |mut stream: Box<dyn tokio::io::AsyncRead + Unpin>| async move {
        let mut buffer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut buffer));
        read.await.map(|_| ())
    };
    let feed = async {
        let mut slow = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")
            .await
            .unwrap();
        for _ in 0..120 {
            if slow.write_all(b"a").await.is_err() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        false
    };
    let (silent, half, nothing, h2, slow) = tokio::join!(
        closed(Box::new(silent)),
        closed(Box::new(half)),
        closed(Box::new(nothing)),
        closed(Box::new(h2)),
        feed
    );
    assert!(
        silent.is_ok(),
        "a connection without a handshake stays open"
    );
    assert!(half.is_ok(), "half a request stays open");
    assert!(nothing.is_ok(), "a connection without a request stays open");
    assert!(
        h2.is_ok(),
        "an HTTP/2 connection without a preface stays open"
    );
    assert!(slow, "a header may be fed for a minute");
    still_works(&daemon.client()).await;
}

#[tokio::test]
async fn floods_of_headers_are_refused() {
    let daemon = Daemon::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().client_over(protocol);
        let mut call = Call::get(CONFIGMAPS);
        for number in 0..2_000 {
            call = call.header(&format!("x-{number}"), &"v".repeat(500));
        }
        // Refused with an answer or by closing: both are right, memory is what must not grow.
        if let Ok(answer) = client.attempt(call).await {
            assert!(
                matches!(answer.status.as_u16(), 400 | 431),
                "{}",
                answer.status
            );
        }
        still_works(&daemon.client()).await;
    }
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_nothing_else() {
    let daemon = Daemon::start().await;
    let stream = daemon.target().tls(&[b"h2"]).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let token = daemon.target().token.unwrap();
    let start = Instant::now();
    for _ in 0..20_000 {
        let Ok(ready) = sender.ready().await else {
            break;
        };
        sender = ready;
        let request = http::Request::get(format!("https://localhost{CONFIGMAPS}"))
            .header("authorization", format!("Bearer {token}"))
            .body(())
            .unwrap();
        match sender.send_request(request, true) {
            Ok((_, mut stream)) => stream.send_reset(h2::Reason::CANCEL),
            Err(_) => break,
        }
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    driver.abort();
    still_works(&daemon.client()).await;
}

#[tokio::test]
async fn garbage_instead_of_tls_or_http_hurts_nobody() {
    let daemon = Daemon::start().await;
    let address = daemon.target().address;
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 4096],
        &[0x16, 3, 1, 0xff, 0xff],
    ] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(garbage).await;
    }
    for garbage in [
        &b"\0\0\0\0\0\0\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff",
    ] {
        for alpn in [&b"h2"[..], b"http/1.1"] {
            let mut stream = daemon.target().tls(&[alpn]).await.unwrap();
            let _ = stream.write_all(garbage).await;
            let mut rest = Vec::new();
            let _ =
                tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut rest)).await;
        }
    }
    still_works(&daemon.client()).await;
    still_works(&daemon.client_http1()).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_the_others_go_on() {
    let daemon = Daemon::with(&["--max-connections", "4", "--idle-timeout", "2s"]).await;
    let clients: Vec<Client> = (0..4).map(|_| daemon.client_http1()).collect();
    for client in &clients {
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
    }
    for _ in 0..3 {
        let refused = daemon.client_http1().attempt(Call::get(CONFIGMAPS)).await;
        assert!(
            refused.is_err(),
            "a fifth connection is served: {refused:?}"
        );
    }
    clients[0].call(Call::get(CONFIGMAPS)).await.expect(200);
    drop(clients);
    // There is room again at the latest when the idle connections were closed.
    let start = Instant::now();
    while daemon
        .client()
        .attempt(Call::get(CONFIGMAPS))
        .await
        .is_err()
    {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "nobody gets in any more"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// API-63: members that no type has are not kept. A body with them may be 10,000 levels deep.
#[tokio::test]
async fn what_is_not_kept_is_as_deep_as_go_reads_it() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (levels, is_read) in [(9_998, true), (9_999, false), (1_000_000, false)] {
        let inside = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let body = format!(r#"{{"metadata":{{"name":"deep","nothing":{inside}}}}}"#);
        let path = "/api/v1/namespaces?dryRun=All&fieldValidation=Ignore";
        let call = Call::new("POST", path).body("application/json", body);
        let answer = client.call(call).await;
        match is_read {
            true => drop(answer.expect(201)),
            false => {
                let status = answer.refusal(400, "BadRequest");
                let message = status["message"].as_str().unwrap();
                assert!(message.contains("exceeded max depth"), "{message}");
            }
        }
    }
    still_works(&client).await;
}
