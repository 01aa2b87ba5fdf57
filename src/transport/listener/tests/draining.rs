//! Tests that a drain is graceful and keeps its deadline.

use std::time::Duration;

use tokio::net::TcpStream;

use super::client::{Http1, Http2, next, read};
use super::{until, with_server, with_threads};
use crate::transport::limits::Limits;

const DEADLINE: Duration = Duration::from_secs(20);

fn unlimited(_: &mut Limits) {}

#[test]
fn a_drain_finishes_requests_ends_watches_and_says_goodbye() {
    with_threads(2, unlimited, async |mut server| {
        let http2 = Http2::connect(&server).await;
        let mut watch2 = http2.open("/watch/a").await.unwrap();
        let asking = http2.clone();
        let slow2 = actix_rt::spawn(async move { asking.get("/sleep/300").await });
        let mut watch1 = Http1::connect(&server).await;
        watch1.head_of("/watch/b").await;
        let mut slow1 = Http1::connect(&server).await;
        slow1
            .write("GET /sleep/300 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let mut idle1 = Http1::connect(&server).await;
        idle1.head_of("/hello").await;
        idle1.read_until("hello").await;
        let idle2 = Http2::connect(&server).await;
        let sleepers = server.watches.feed("sleepers");
        until(|| sleepers.opened() == 2).await;
        // The last frame before the end still arrives.
        server.watches.feed("a").push("bookmark\n");
        assert_eq!(read(watch2.body_mut(), 9).await, b"bookmark\n");

        let address = server.address;
        let (cut, slow2, ended2, rest1, slow1, idle1) = tokio::join!(
            server.drain(DEADLINE),
            slow2,
            next(watch2.body_mut()),
            watch1.rest(),
            slow1.rest(),
            idle1.rest()
        );
        assert_eq!(cut, 0);
        assert_eq!(slow2.unwrap().unwrap().1, "awake");
        assert_eq!(ended2.unwrap(), None);
        assert!(String::from_utf8(rest1).unwrap().ends_with("0\r\n\r\n"));
        assert!(String::from_utf8(slow1).unwrap().ends_with("awake"));
        assert!(idle1.is_empty());
        // The GOAWAY must carry no error, or clients would take it for a crash.
        until(|| http2.is_over() && idle2.is_over()).await;
        assert!(matches!(*http2.ended.lock(), Some(Ok(()))));
        assert!(matches!(*idle2.ended.lock(), Some(Ok(()))));
        assert!(TcpStream::connect(address).await.is_err());
    });
}

#[test]
fn what_does_not_end_is_cut_at_the_deadline() {
    with_server(unlimited, async |mut server| {
        server.watches.feed("a").be_stubborn();
        let http2 = Http2::connect(&server).await;
        let _watch = http2.open("/watch/a").await.unwrap();
        assert_eq!(server.drain(Duration::from_millis(200)).await, 1);
        until(|| http2.is_over()).await;
    });
}

#[test]
fn a_drain_waits_for_requests_that_go_on_without_their_clients() {
    with_threads(2, unlimited, async |mut server| {
        let feed = server.watches.feed("unattended");
        feed.open();
        let mut draining = Box::pin(server.drain(DEADLINE));
        let early = tokio::time::timeout(Duration::from_millis(100), &mut draining).await;
        assert!(early.is_err());
        feed.dropped
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(draining.await, 0);
    });
}

#[test]
fn an_empty_server_drains_at_once() {
    with_threads(2, unlimited, async |mut server| {
        assert_eq!(server.drain(DEADLINE).await, 0);
    });
}

#[test]
fn a_drain_does_not_wait_for_a_body_that_nobody_reads() {
    with_server(unlimited, async |mut server| {
        let http2 = Http2::connect(&server).await;
        let upload = super::client::request("POST", "/hello");
        let (response, _body) = http2.send(upload, false).await.unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
        assert_eq!(server.drain(DEADLINE).await, 0);
    });
}
