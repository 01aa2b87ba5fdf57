//! Tests of servers with several kinds of responses, compared with recordings of kube-apiserver
//! 1.36.

use std::sync::Arc;

use futures_util::future::ready;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Starts a server that sends `answer` to each request. Returns its port.
async fn server(answer: &'static str) -> u16 {
    let certified = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![certified.cert.der().clone()], key)
    .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut asked = [0; 1024];
        let length = stream.read(&mut asked).await.unwrap();
        assert!(asked[..length].starts_with(b"GET /healthz HTTP/1.1\r\n"));
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    port
}

async fn condition(part: Part) -> Value {
    let store = ComponentStatusStore {
        parts: vec![("a".to_owned(), part)],
        ..ComponentStatusStore::new(Vec::new())
    };
    let found = store.found("a").await.unwrap();
    let shown: Value = serde_json::from_slice(&found.wire()).unwrap();
    shown["conditions"][0].clone()
}

async fn answering(answer: &'static str) -> Value {
    let port = server(answer).await;
    condition(Part::Server(HealthzProbe { port })).await
}

#[tokio::test]
async fn servers_are_as_healthy_as_they_answer_api_232() {
    let healthy = answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").await;
    let expected = json!({"type": "Healthy", "status": "True", "message": "hello\n"});
    assert_eq!(healthy, expected);
    let silent = answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(silent, json!({"type": "Healthy", "status": "True"}));
    let failing = answering("HTTP/1.1 500 Oh\r\nContent-Length: 6\r\n\r\nsecret").await;
    let why = "HTTP probe failed with statuscode: 500";
    let expected = json!({"type": "Healthy", "status": "False", "message": why});
    assert_eq!(failing, expected);
}

#[tokio::test]
async fn answers_are_bounded_and_nobody_is_asked_whom_they_name_api_232() {
    let elsewhere = answering(
        "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\nno",
    )
    .await;
    assert_eq!(elsewhere["status"], "Unknown");
    let long = answering("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n").await;
    assert_eq!(long["status"], "False");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_in_the_words_of_go_api_232() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = condition(Part::Server(HealthzProbe { port })).await;
    let why = format!(
        "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection \
         refused"
    );
    assert_eq!(
        refused,
        json!({"type": "Healthy", "status": "False", "message": why})
    );
}

#[tokio::test]
async fn a_store_that_fails_says_why_api_232() {
    let down = || ready(Err("the disk is on fire".to_owned())).boxed();
    let failing = condition(Part::Store(Box::new(down))).await;
    let why = "the disk is on fire";
    let expected = json!({"type": "Healthy", "status": "False", "message": why, "error": why});
    assert_eq!(failing, expected);
}
