//! Connections, bounds, time, and the texts of failures (HK-37).

use http::header::{AUTHORIZATION, HOST};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zeroize::Zeroizing;

use super::client::POOLS_MAX;
use super::pool::IDLE_MAX;
use super::server::{Certified, TestServer, answer};
use super::*;

/// A server that reads some bytes from each connection, answers with these and closes it, or keeps
/// it open without an answer.
async fn raw(answer: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await;
            match answer {
                Some(answer) => {
                    let _ = socket.write_all(answer).await;
                    let _ = socket.shutdown().await;
                    // Bytes that are left unread would reset the connection.
                    let _ = socket.read_to_end(&mut Vec::new()).await;
                }
                None => kept.push(socket),
            }
        }
    });
    format!("127.0.0.1:{port}")
}

#[tokio::test]
async fn failures_of_transport_have_the_texts_of_go_hk_37() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let silent = raw(Some(b"")).await;
    let plain = raw(Some(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let half = raw(Some(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")).await;
    let refused = format!("dial tcp {closed}: connect: connection refused");
    let first = "tls: first record does not look like a TLS handshake";
    for (scheme, address, expected) in [
        ("https", &closed, &*refused),
        ("https", &plain, first),
        ("http", &silent, "EOF"),
        ("https", &silent, "EOF"),
    ] {
        let url = format!("{scheme}://{address}");
        assert_eq!(
            failure(&target(&url), post("/?timeout=10s")).await,
            format!("Post \"{url}/?timeout=10s\": {expected}")
        );
    }
    let text = failure(&target(format!("http://{half}")), post("/")).await;
    assert_eq!(text, "unexpected EOF");
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_no_more_than_the_deadline_hk_37() {
    let url = format!("http://{}", raw(None).await);
    let mut request = post("/");
    request.deadline = Instant::now() + Duration::from_millis(20);
    assert_eq!(
        failure(&target(&url), request).await,
        format!("Post \"{url}/\": context deadline exceeded")
    );
}

#[tokio::test]
async fn an_answer_above_the_bound_is_refused() {
    let server = TestServer::start(None, |_| answer(vec![b'x'; 1000])).await;
    let mut request = post("/");
    request.answer_bytes_max = 1000;
    let target = target(server.url("http"));
    let sent = EgressClient::new().send(&target, request.clone()).await;
    assert_eq!(sent.unwrap().body.len(), 1000);
    request.answer_bytes_max = 999;
    assert_eq!(
        failure(&target, request).await,
        "the answer is too large: it has more than 999 bytes"
    );
}

#[tokio::test]
async fn requests_to_one_target_share_a_connection_hk_45() {
    let own = Certified::own(&rcgen::CertificateParams::new(vec!["a.ns.svc".to_owned()]).unwrap());
    for (http, protocols) in [
        (HttpPolicy::Http1, &[&b"h2"[..], b"http/1.1"][..]),
        (HttpPolicy::Http1AndHttp2, &[b"http/1.1"]),
        (HttpPolicy::Http1AndHttp2, &[b"h2"]),
    ] {
        let server = TestServer::start(Some(own.tls(protocols)), |_| answer("ok")).await;
        let mut settings = TargetSettings::new(
            "https://a.ns.svc:443",
            Roots::Bundle(own.pem.clone().into()),
        );
        settings.http = http;
        settings.address = Address::At(format!("127.0.0.1:{}", server.port));
        settings.credentials = Some(Credentials::Basic(
            "ada".to_owned(),
            Zeroizing::new("pw".to_owned()),
        ));
        let client = EgressClient::new();
        for _ in 0..3 {
            // An equal target is the same one.
            let target = Target::new(settings.clone()).unwrap();
            let sent = client.send(&target, post("/path?query")).await.unwrap();
            assert_eq!(sent.body, "ok");
        }
        let seen = server.seen.lock();
        assert_eq!(seen.len(), 3);
        for seen in seen.iter() {
            let host = seen.headers.get(HOST).map(|host| host.as_bytes());
            let authority = seen.uri.authority().map(|one| one.as_str().as_bytes());
            assert_eq!(host.or(authority), Some(&b"a.ns.svc:443"[..]));
            assert_eq!(seen.uri.path_and_query().unwrap(), "/path?query");
            assert_eq!(seen.headers[AUTHORIZATION], "Basic YWRhOnB3");
            assert_eq!(seen.connection, 0);
        }
    }
}

#[tokio::test]
async fn idle_connections_and_pools_are_bounded() {
    let server = TestServer::start(None, |_| answer("ok")).await;
    let client = EgressClient::new();
    let one = target(server.url("http"));
    // All are open at the same time, so that none can use the connection of another.
    let mut open = Vec::new();
    for _ in 0..IDLE_MAX + 5 {
        open.push(client.open(&one, post("/")).await.unwrap());
    }
    for mut answer in open {
        while answer.body.next().await.unwrap().is_some() {}
    }
    assert_eq!(client.held(), (1, IDLE_MAX));
    for number in 0..POOLS_MAX + 5 {
        let mut settings = TargetSettings::new(server.url("http"), Roots::Anyone);
        settings.server_name = Some(format!("{number}.example"));
        let target = Target::new(settings).unwrap();
        client.send(&target, post("/")).await.unwrap();
    }
    // The first one was not used for longest.
    assert_eq!(client.held(), (POOLS_MAX, POOLS_MAX));
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_replaced() {
    let url = format!(
        "http://{}",
        raw(Some(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")).await
    );
    let client = EgressClient::new();
    for _ in 0..3 {
        let mut request = post("/");
        request.method = Method::GET;
        let sent = client.send(&target(&url), request).await.unwrap();
        assert_eq!(sent.body, "ok");
    }
}

#[test]
fn targets_are_servers_and_hide_their_secrets() {
    for url in [
        "",
        "/path",
        "a.example",
        "ftp://a.example",
        "https://ada:secret@a.example",
        "https://",
    ] {
        let made = Target::new(TargetSettings::new(url, Roots::System));
        assert_eq!(made.err(), Some(InvalidTarget::Url), "{url}");
    }
    let mut settings = TargetSettings::new("https://[::1]:8/ignored", Roots::System);
    settings.credentials = Some(Credentials::Bearer(Zeroizing::new("a\nb".to_owned())));
    let made = Target::new(settings.clone());
    assert_eq!(made.err(), Some(InvalidTarget::Credentials));
    settings.credentials = Some(Credentials::Bearer(Zeroizing::new("secret".to_owned())));
    let made = Target::new(settings).unwrap();
    assert_eq!(format!("{made:?}"), "Target(https://[::1]:8)");
    assert_eq!(made.dialed(), "[::1]:8");
}
