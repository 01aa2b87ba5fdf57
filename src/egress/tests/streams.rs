//! Requests that are passed on, and upgrades.

use futures_util::StreamExt;
use futures_util::stream;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::server::{Certified, TestServer, answer};
use super::*;

fn forwarded(method: Method, body: ForwardBody) -> ForwardRequest {
    ForwardRequest {
        method,
        path: "/path".to_owned(),
        headers: HeaderMap::new(),
        body,
        deadline: None,
    }
}

fn arriving(pieces: Vec<Result<&'static str, &str>>, length: Option<u64>) -> ForwardBody {
    let pieces = pieces.into_iter().map(|piece| match piece {
        Ok(text) => Ok(Bytes::from_static(text.as_bytes())),
        Err(why) => Err(why.to_owned()),
    });
    let pieces = stream::iter(pieces.collect::<Vec<_>>()).boxed_local();
    ForwardBody::Arriving { pieces, length }
}

async fn whole(mut body: ForwardedBody) -> Result<Vec<u8>, String> {
    let mut whole = Vec::new();
    while let Some(frame) = body.next().await {
        whole.extend_from_slice(&frame?.into_data().unwrap_or_default());
    }
    Ok(whole)
}

/// A server that reads the head of a request, answers with these bytes, and then echoes. It says
/// when its client has closed the connection.
async fn echoing(answer: &'static [u8]) -> (String, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (closed, is_closed) = oneshot::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        socket.write_all(answer).await.unwrap();
        let (mut reader, mut writer) = socket.split();
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
        let _ = closed.send(());
    });
    (url, is_closed)
}

#[tokio::test]
async fn bodies_stream_to_the_server_over_both_protocols() {
    let own = Certified::own(&rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap());
    for protocol in [b"h2".as_slice(), b"http/1.1"] {
        let server = TestServer::start(Some(own.tls(&[protocol])), |_| answer("ok")).await;
        let mut settings = TargetSettings::new(server.url("https"), Roots::Anyone);
        settings.http = HttpPolicy::Http1AndHttp2;
        let target = Target::new(settings).unwrap();
        let client = EgressClient::new();
        for length in [None, Some(6)] {
            let body = arriving(vec![Ok("one"), Ok("two")], length);
            let mut request = forwarded(Method::POST, body);
            request
                .headers
                .insert(HOST, HeaderValue::from_static("other.example"));
            let answer = client.forward(&target, request).await.unwrap();
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(whole(answer.body).await.unwrap(), b"ok");
            let seen = server.seen.lock().pop().unwrap();
            assert_eq!(seen.body, "onetwo");
            // No client is named unless the request names one, and the host is that of the request.
            assert!(!seen.headers.contains_key(http::header::USER_AGENT));
            let host = seen
                .headers
                .get(HOST)
                .map(|host| host.to_str().unwrap().to_owned());
            let host = host.or(seen.uri.authority().map(ToString::to_string));
            assert_eq!(host.unwrap(), "other.example");
            let announced = seen
                .headers
                .get(CONTENT_LENGTH)
                .map(|it| it.to_str().unwrap());
            assert_eq!(announced.map(|it| it.parse().unwrap()), length);
            if protocol != b"h2" {
                let is_chunked = seen.headers.contains_key(TRANSFER_ENCODING);
                assert_eq!(is_chunked, length.is_none());
            }
            assert_eq!(seen.connection, 0, "a connection is used again");
        }
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_taken_for_a_complete_one() {
    let server = TestServer::start(None, |_| answer("ok")).await;
    let body = arriving(vec![Ok("one"), Err("the client is gone")], None);
    let client = EgressClient::new();
    let target = target(server.url("http"));
    let sent = client.forward(&target, forwarded(Method::POST, body)).await;
    assert!(sent.is_err());
    assert!(server.seen.lock().is_empty());
}

#[tokio::test]
async fn an_answer_that_breaks_off_says_so_and_one_that_is_dropped_is_broken_off() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun";
    let (url, is_closed) = echoing(begun).await;
    let client = EgressClient::new();
    let get = || forwarded(Method::GET, ForwardBody::Whole(Bytes::new()));
    let mut answer = client.forward(&target(&url), get()).await.unwrap();
    let first = answer.body.next().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "begun");
    drop(answer);
    is_closed.await.unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
        socket.write_all(begun).await.unwrap();
    });
    let answer = client.forward(&target(&url), get()).await.unwrap();
    assert_eq!(whole(answer.body).await, Err("unexpected EOF".to_owned()));
}

#[tokio::test]
async fn an_upgrade_that_nobody_has_asked_for_is_refused() {
    let (url, _) = echoing(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").await;
    let get = forwarded(Method::GET, ForwardBody::Whole(Bytes::new()));
    let sent = EgressClient::new().forward(&target(&url), get).await;
    let failure = sent.err().unwrap().failure;
    assert!(matches!(failure, Failure::Transport(_)), "{failure:?}");
}

fn upgrade() -> UpgradeRequest {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("echo"));
    UpgradeRequest {
        method: Method::POST,
        path: "/path?query".to_owned(),
        headers,
        deadline: None,
    }
}

#[tokio::test]
async fn an_upgrade_is_a_stream_with_the_bytes_that_came_early() {
    let (url, is_closed) =
        echoing(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nX-Own: 1\r\n\r\nearly")
            .await;
    let answer = EgressClient::new()
        .upgrade(&target(&url), upgrade())
        .await
        .unwrap();
    let UpgradeAnswer::Switched(mut switched) = answer else {
        panic!("the server has switched");
    };
    assert_eq!(switched.headers["x-own"], "1");
    let mut early = [0; 5];
    switched.stream.read_exact(&mut early).await.unwrap();
    assert_eq!(&early, b"early");
    switched.stream.write_all(b"echo").await.unwrap();
    let mut echo = [0; 4];
    switched.stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"echo");
    drop(switched);
    is_closed.await.unwrap();
}

#[tokio::test]
async fn a_refusal_of_an_upgrade_is_an_answer_and_bounded() {
    let refusal = b"HTTP/1.1 403 No\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nno";
    let (url, _) = echoing(refusal).await;
    let answer = EgressClient::new()
        .upgrade(&target(&url), upgrade())
        .await
        .unwrap();
    let UpgradeAnswer::Refused(answer) = answer else {
        panic!("the server has refused");
    };
    assert_eq!((answer.status.as_u16(), &*answer.body), (403, &b"no"[..]));
    assert_eq!(answer.headers["content-type"], "a/b");

    let server = TestServer::start(None, |_| answer_of(1 << 20)).await;
    let answer = EgressClient::new()
        .upgrade(&target(server.url("http")), upgrade())
        .await;
    let UpgradeAnswer::Refused(answer) = answer.unwrap() else {
        panic!("the server has refused");
    };
    assert_eq!(answer.body.len(), 256 << 10);

    let (url, _) = echoing(b"").await;
    let mut late = upgrade();
    late.deadline = Some(Instant::now() + Duration::from_millis(20));
    let failed = EgressClient::new().upgrade(&target(&url), late).await;
    assert_eq!(failed.err().unwrap().failure, Failure::Deadline);
}

fn answer_of(bytes: usize) -> http::Response<http_body_util::Full<Bytes>> {
    answer(vec![b'x'; bytes])
}
