//! Requests at the edges of HTTP, which get the responses of kube-apiserver: odd hosts and codings,
//! HTTP without TLS, parameters and headers with odd values.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::frames::{self, Frames};
use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol, body, configmap};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The whole answer to a request that ends its connection.
async fn answer_to(daemon: &Daemon, request: &str) -> String {
    let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(TIMEOUT, reading)
        .await
        .expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn bodies_in_other_codings_and_hosts_that_are_none_are_refused() {
    let daemon = Daemon::start().await;
    let bearer = format!("authorization: Bearer {}", daemon.token());
    let chunks = "content-type: application/json\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    for (headers, code, text) in [
        (
            "host: a\r\ntransfer-encoding: gzip, chunked",
            501,
            "Unsupported transfer encoding",
        ),
        (
            "host: a\r\ntransfer-encoding: chunked, chunked",
            501,
            "Unsupported transfer encoding",
        ),
        (
            "host: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked",
            501,
            "Unsupported transfer encoding",
        ),
        (
            "host: a b\r\ntransfer-encoding: chunked",
            400,
            "malformed Host header",
        ),
        (
            "host: a\"\r\ntransfer-encoding: chunked",
            400,
            "malformed Host header",
        ),
        (
            "host: a/b\r\ntransfer-encoding: chunked",
            400,
            "malformed Host header",
        ),
    ] {
        let request = format!("POST {CONFIGMAPS} HTTP/1.1\r\n{headers}\r\n{bearer}\r\n{chunks}");
        let answer = answer_to(&daemon, &request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code}")),
            "{headers}: {answer}"
        );
        assert!(answer.ends_with(text), "{headers}: {answer}");
        assert!(answer.contains("connection: close"), "{headers}: {answer}");
    }
    for host in ["", "a", "A.b:6443", "[::1]:6443", "a_b~!$&'()*+,;=%"] {
        let request = format!(
            "GET /version HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\nconnection: close\r\n\r\n"
        );
        let answer = answer_to(&daemon, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    let chunked = format!(
        "GET /version HTTP/1.1\r\nhost: a\r\n{bearer}\r\ntransfer-encoding: Chunked\r\n\
         connection: close\r\n\r\n0\r\n\r\n"
    );
    let answer = answer_to(&daemon, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn http2_takes_one_host_beside_the_authority() {
    let daemon = Daemon::start().await;
    let token = daemon.token();
    for (hosts, status) in [(0, b"200"), (1, b"200"), (2, b"400"), (3, b"400")] {
        let mut connection = Frames::open(&daemon.target(), 65_535).await.unwrap();
        let mut request = frames::get(1, "/version", Some(&token));
        let mut block = request.split_off(9);
        for host in 0..hosts {
            // A header that is not indexed, with the name at 38 of the static table.
            frames::literal(38, &format!("host{host}"), &mut block);
        }
        let head = frames::frame(1, 5, 1, &block);
        connection.write(&head).await.unwrap();
        let answered = connection.settled().await;
        let head = answered.iter().find(|frame| frame.0 == 1).unwrap();
        // The status is an index of the static table: 8 is 200, 12 is 400.
        let index = if status == b"200" { 0x88 } else { 0x8c };
        assert!(head.2.contains(&index), "{hosts}: {head:?}");
    }
}

#[tokio::test]
async fn http_without_tls_is_told_to_use_it() {
    let daemon = Daemon::start().await;
    let before = daemon.count("apiserver_tls_handshake_errors_total").await;
    let mut asked = 0;
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let mut stream = TcpStream::connect(("127.0.0.1", daemon.port()))
            .await
            .unwrap();
        let request = format!("{method} /api HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let reading = stream.read_to_string(&mut answer);
        tokio::time::timeout(TIMEOUT, reading)
            .await
            .expect("the connection ends")
            .unwrap();
        let wanted = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS \
                      server.\n";
        assert_eq!(answer, wanted, "{method}");
        asked += 1;
    }
    let after = daemon.count("apiserver_tls_handshake_errors_total").await;
    assert_eq!(after - before, asked);
}

#[tokio::test]
async fn a_token_behind_two_spaces_is_ignored_with_a_warning() {
    let daemon = Daemon::start().await;
    let nobody = daemon.target().anonymous();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = nobody.client_over(protocol);
        let spaced = format!("Bearer  {}", daemon.token());
        let call = Call::get(CONFIGMAPS).header("Authorization", &spaced);
        let answer = client.call(call).await;
        let warning = "299 - \"the provided Authorization header contains extra space before the \
                       bearer token, and is ignored\"";
        assert_eq!(answer.header("warning"), Some(warning));
        answer.refusal(403, "Forbidden");
    }
}

#[tokio::test]
async fn errors_are_indented_as_objects_are_api_60() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let object = Call::post(CONFIGMAPS, &body("a", "1"));
    client.call(object).await.expect(201);
    for (query, agent, is_indented) in [
        ("", "x", false),
        ("", "curl/8", true),
        ("?pretty", "curl/8", true),
        ("?pretty=false", "curl/8", false),
        ("?pretty=foo", "curl/8", false),
        ("?pretty=foo", "x", false),
        ("?pretty=true", "x", true),
        ("?pretty=1", "x", true),
    ] {
        for path in [configmap("a"), configmap("none")] {
            let call = Call::get(&format!("{path}{query}")).header("User-Agent", agent);
            let text = client.call(call).await.text();
            assert_eq!(
                text.starts_with("{\n"),
                is_indented,
                "{query} {agent}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn paths_end_with_one_slash_at_most_and_the_index_takes_all_methods() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (path, code) in [
        ("/apis", 200),
        ("/apis/", 200),
        ("/apis//", 404),
        ("/apis///", 404),
        ("/apis/apps", 200),
        ("/apis/apps/", 200),
        ("/apis/apps//", 404),
    ] {
        let answer = client.call(Call::get(path)).await;
        assert_eq!(answer.status.as_u16(), code, "{path}");
    }
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let answer = client.call(Call::new(method, "/")).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}");
        assert!(answer.json()["paths"].is_array(), "{method}");
    }
}

#[tokio::test]
async fn documents_of_openapi_say_since_when_they_are_as_they_are() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/version"] {
        let first = client.call(Call::get(path)).await;
        assert_eq!(first.status, StatusCode::OK, "{path}");
        let modified = first.header("last-modified").unwrap().to_owned();
        assert!(modified.ends_with(" GMT"), "{path}: {modified}");
        let tag = first.header("etag").unwrap().to_owned();
        let past = "Thu, 01 Jan 1970 00:00:00 GMT";
        for (name, value, code) in [
            ("If-None-Match", tag.as_str(), 304),
            ("If-None-Match", "\"other\"", 200),
            ("If-Modified-Since", modified.as_str(), 304),
            ("If-Modified-Since", past, 200),
            ("If-Modified-Since", "soon", 200),
        ] {
            let answer = client.call(Call::get(path).header(name, value)).await;
            assert_eq!(answer.status.as_u16(), code, "{path} {name}: {value}");
            assert_eq!(answer.header("etag"), Some(tag.as_str()), "{path}");
            let dated = answer.header("last-modified").is_some();
            assert_eq!(dated, code == 200, "{path} {name}: {value}");
            assert_eq!(answer.body.is_empty(), code == 304, "{path}");
        }
        let both = Call::get(path)
            .header("If-None-Match", "\"other\"")
            .header("If-Modified-Since", &modified);
        assert_eq!(client.call(both).await.status, StatusCode::OK, "{path}");
    }
}

/// ST-80.
#[tokio::test]
async fn a_dry_run_shows_the_version_that_a_new_object_says() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (kind, path, object) in [
        ("ConfigMap", CONFIGMAPS, json!({})),
        (
            "HorizontalPodAutoscaler",
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            json!({ "spec": { "maxReplicas": 2, "scaleTargetRef":
                { "apiVersion": "apps/v1", "kind": "a", "name": "b" } } }),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({ "name": "a", "resourceVersion": "12345" });
        let dry = Call::post(&format!("{path}?dryRun=All"), &object);
        let shown = client.call(dry).await.expect(201);
        assert_eq!(shown["metadata"]["resourceVersion"], "12345", "{kind}");
        let refused = client.call(Call::post(path, &object)).await;
        assert!(!refused.status.is_success(), "{kind}: {}", refused.text());
        object["metadata"]["resourceVersion"] = "".into();
        let dry = Call::post(&format!("{path}?dryRun=All"), &object);
        let shown = client.call(dry).await.expect(201);
        assert!(
            shown["metadata"].get("resourceVersion").is_none(),
            "{shown}"
        );
    }
}
