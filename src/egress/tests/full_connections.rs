//! Connections of HTTP/2 that have as many requests as their servers permit.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::pool::IDLE_MAX;
use super::server::{Certified, TestServer, answer};
use super::*;

fn tls() -> Arc<ServerConfig> {
    let names = vec!["127.0.0.1".to_owned()];
    Certified::own(&rcgen::CertificateParams::new(names).unwrap()).tls(&[b"h2"])
}

fn settings(port: u16) -> TargetSettings {
    let url = format!("https://127.0.0.1:{port}");
    let mut settings = TargetSettings::new(url, Roots::Anyone);
    settings.http = HttpPolicy::Http1AndHttp2;
    settings
}

/// The number of requests on each connection.
fn counts(server: &TestServer) -> Vec<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for seen in server.seen.lock().iter() {
        *counts.entry(seen.connection).or_default() += 1;
    }
    counts.into_values().collect()
}

async fn read(mut answer: OpenAnswer) {
    while answer.body.next().await.unwrap().is_some() {}
}

#[tokio::test]
async fn requests_above_the_limit_of_a_connection_have_another_one_cn_32_cn_38() {
    let server = TestServer::start_with_limit(Some(tls()), 2, |_| answer("ok")).await;
    let target = Target::new(settings(server.port)).unwrap();
    let client = EgressClient::new();
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(client.open(&target, post("/")).await.unwrap());
    }
    assert_eq!(counts(&server), [2, 2, 1]);
    assert_eq!(client.held(), (1, 0));
    // Room on an earlier connection is used first, whether its answer was read or dropped.
    read(open.remove(0)).await;
    drop(open.remove(0));
    for _ in 0..3 {
        open.push(client.open(&target, post("/")).await.unwrap());
    }
    assert_eq!(counts(&server), [4, 2, 2]);
    drop(open);
    assert_eq!(client.held(), (1, 3));
}

#[tokio::test]
async fn idle_connections_of_http2_are_bounded() {
    let server = TestServer::start_with_limit(Some(tls()), 1, |_| answer("ok")).await;
    let target = Target::new(settings(server.port)).unwrap();
    let client = EgressClient::new();
    let mut open = Vec::new();
    for _ in 0..IDLE_MAX + 5 {
        open.push(client.open(&target, post("/")).await.unwrap());
    }
    assert_eq!(counts(&server), [1; IDLE_MAX + 5]);
    for answer in open {
        read(answer).await;
    }
    assert_eq!(client.held(), (1, IDLE_MAX));
}

/// Accepts one connection with TLS, and does no more.
async fn silent() -> (u16, tokio::task::JoinHandle<TlsStream<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepting = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(tls()).accept(socket).await.unwrap()
    });
    (port, accepting)
}

#[tokio::test]
async fn a_server_that_does_not_begin_http2_costs_the_time_for_a_connection() {
    let (port, kept) = silent().await;
    let mut settings = settings(port);
    settings.connect_timeout = Some(Duration::from_millis(500));
    let target = Target::new(settings).unwrap();
    let text = failure(&target, post("/")).await;
    let expected = "http2: timeout awaiting the server's settings";
    let expected = format!("Post \"https://127.0.0.1:{port}/\": {expected}");
    assert_eq!(text, expected);
    drop(kept.await.unwrap());
}

#[tokio::test]
async fn a_server_that_closes_before_it_begins_http2_is_said_to_have_closed() {
    let (port, accepting) = silent().await;
    let closing = tokio::spawn(async move { drop(accepting.await.unwrap()) });
    let text = failure(&Target::new(settings(port)).unwrap(), post("/")).await;
    assert!(text.starts_with("Post "), "{text}");
    closing.await.unwrap();
}
