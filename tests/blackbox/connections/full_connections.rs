//! Logs that take all requests of a connection to a kubelet (CN-38, CN-43).

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio::net::TcpListener;

use super::PODS;
use super::kubelet::pod_on;
use crate::harness::webhook::acceptor_with;
use crate::harness::{Call, Client, Daemon};

/// Starts a kubelet that speaks HTTP/2, and takes two requests at a time on a connection. Each log
/// has one line, and those that are followed do not end.
async fn kubelet() -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let tls = acceptor_with(certificate.der(), &key, &[b"h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let stream = TokioIo::new(tls.accept(socket).await.unwrap());
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.max_concurrent_streams(2);
                // The daemon may close the connection at any time.
                let _ = server.serve_connection(stream, service_fn(log)).await;
            });
        }
    });
    address
}

async fn log(
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let follows = request.uri().query().unwrap_or_default().contains("follow");
    let line = stream::iter([Ok(Frame::data(Bytes::from_static(b"line\n")))]);
    let rest = match follows {
        true => stream::pending().left_stream(),
        false => stream::empty().right_stream(),
    };
    Ok(Response::new(StreamBody::new(line.chain(rest))))
}

async fn node(client: &Client, address: SocketAddr) {
    let node = json!({"metadata": {"name": "n"}});
    let created = client.call(Call::post("/api/v1/nodes", &node)).await;
    created.expect(201);
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
    }});
    let patch = Call::merge_patch("/api/v1/nodes/n/status", &status);
    client.call(patch).await.expect(200);
    pod_on(client, "n", "p", &["main"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_that_fill_a_connection_hold_up_no_other_one_cn_38_cn_43() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    node(&client, kubelet().await).await;
    let mut followed = Vec::new();
    for _ in 0..5 {
        let path = format!("{PODS}/p/log?follow=true");
        let mut log = client.lines(Call::get(&path)).await.unwrap();
        assert_eq!(log.next().await.unwrap().unwrap(), "line");
        followed.push(log);
    }
    let whole = client.call(Call::get(&format!("{PODS}/p/log"))).await;
    assert_eq!(
        (whole.status.as_u16(), whole.text().as_str()),
        (200, "line\n")
    );
}
