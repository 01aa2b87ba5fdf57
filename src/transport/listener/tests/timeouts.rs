//! Tests of connections that do nothing or are too slow.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Http1, Http2, tls};
use super::{until, with_server};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_handshake_that_does_not_come_is_cut_off() {
    with_server(
        |limits| limits.handshake_timeout = SHORT,
        async |server| {
            let started = Instant::now();
            let mut silent = TcpStream::connect(server.address).await.unwrap();
            assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)));
            assert!(started.elapsed() >= SHORT);
            // HTTP/2 was agreed on, but its preface does not arrive.
            let mut agreed = tls(&server, &["h2"]).await.unwrap();
            let mut rest = Vec::new();
            let _ = agreed.read_to_end(&mut rest).await;
        },
    );
}

#[test]
fn a_header_that_comes_too_slowly_is_cut_off() {
    with_server(
        |limits| {
            limits.header_timeout = SHORT;
            limits.idle_timeout = LONG;
        },
        async |server| {
            for start in ["", "G", "GET / HTTP/1.1\r\nhost: local"] {
                let mut http1 = Http1::connect(&server).await;
                http1.write(start).await;
                assert!(http1.rest().await.is_empty(), "{start:?}");
            }
            // The same holds for the second request of a connection.
            let mut http1 = Http1::connect(&server).await;
            http1.head_of("/hello").await;
            http1.read_until("hello").await;
            http1.write("GET /hello HT").await;
            assert!(http1.rest().await.is_empty());
            // A byte from time to time does not help.
            let mut http1 = Http1::connect(&server).await;
            let started = Instant::now();
            while http1.0.write_all(b"x").await.is_ok() && http1.0.flush().await.is_ok() {
                tokio::time::sleep(SHORT / 10).await;
                assert!(started.elapsed() < Duration::from_secs(20));
            }
        },
    );
}

#[test]
fn an_idle_connection_outlives_the_header_timeout_and_not_the_idle_timeout() {
    with_server(
        |limits| {
            limits.header_timeout = SHORT;
            limits.idle_timeout = SHORT * 4;
            limits.inspection_interval = SHORT;
        },
        async |server| {
            let mut http1 = Http1::connect(&server).await;
            http1.head_of("/hello").await;
            http1.read_until("hello").await;
            tokio::time::sleep(SHORT * 2).await;
            assert!(http1.head_of("/hello").await.starts_with("HTTP/1.1 200"));
            http1.read_until("hello").await;
            let rested = Instant::now();
            assert!(http1.rest().await.is_empty());
            assert!(rested.elapsed() >= SHORT * 3, "{:?}", rested.elapsed());

            let http2 = Http2::connect(&server).await;
            http2.get("/hello").await.unwrap();
            until(|| http2.is_over()).await;
            let ended = http2.ended.lock().take();
            assert!(
                matches!(ended, Some(Ok(()))),
                "not closed gracefully: {ended:?}"
            );
        },
    );
}

#[test]
fn a_client_that_does_not_answer_the_farewell_is_left_all_the_same() {
    with_server(
        |limits| {
            limits.idle_timeout = SHORT;
            limits.inspection_interval = SHORT;
        },
        async |server| {
            let mut http2 = tls(&server, &["h2"]).await.unwrap();
            http2
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                .await
                .unwrap();
            let mut rest = Vec::new();
            let _ = http2.read_to_end(&mut rest).await;
            assert!(!rest.is_empty());
        },
    );
}

#[test]
fn a_quiet_watch_and_a_slow_answer_are_not_idle() {
    with_server(
        |limits| {
            limits.header_timeout = SHORT;
            limits.idle_timeout = SHORT;
            limits.inspection_interval = SHORT / 2;
        },
        async |server| {
            let http2 = Http2::connect(&server).await;
            let mut watch2 = http2.open("/watch/a").await.unwrap();
            let mut watch1 = Http1::connect(&server).await;
            watch1.head_of("/watch/b").await;
            let mut slow = Http1::connect(&server).await;
            assert!(slow.head_of("/sleep/700").await.starts_with("HTTP/1.1 200"));
            server.watches.feed("a").push("late");
            server.watches.feed("b").push("late");
            assert_eq!(super::client::read(watch2.body_mut(), 4).await, b"late");
            assert!(watch1.read_until("late").await.ends_with("late"));
        },
    );
}

#[test]
fn a_peer_that_answers_no_ping_is_dead() {
    with_server(
        |limits| {
            limits.idle_timeout = LONG;
            limits.inspection_interval = SHORT / 3;
            limits.ping_after = SHORT;
            limits.dead_after = SHORT * 4;
        },
        async |server| {
            let lively = Http2::connect(&server).await;
            let _watch = lively.open("/watch/lively").await.unwrap();
            // The client does not drive the connection, so it answers nothing.
            let stream = tls(&server, &["h2"]).await.unwrap();
            let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
            let driving = actix_rt::spawn(async move {
                let mut connection = Box::pin(connection);
                let _ = tokio::time::timeout(SHORT, &mut connection).await;
                std::future::pending::<()>().await;
            });
            let watch = super::client::request("GET", "/watch/dead");
            let (response, _) = requests.send_request(watch, true).unwrap();
            let _response = response.await.unwrap();
            let (dead, lively_feed) = (server.watches.feed("dead"), server.watches.feed("lively"));
            until(|| dead.dropped() == 1).await;
            assert_eq!(lively_feed.dropped(), 0);
            driving.abort();
        },
    );
}
