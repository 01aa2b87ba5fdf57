//! Requests and responses over both protocols.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::poll_fn;
use http::StatusCode;
use tokio::io::AsyncReadExt;

use super::client::{Http1, Http2, next, read, request, tls};
use super::service::{BODY_LIMIT, CHUNK, chunk};
use super::{until, with_server, with_threads};

fn unlimited(_: &mut crate::transport::limits::Limits) {}

/// API-21: HTTP/1.1 is served as well as HTTP/2.
#[test]
fn alpn_chooses_the_protocol_and_without_it_http1_is_spoken() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let (status, body) = http2.get("/protocol").await.unwrap();
        assert_eq!(
            (status, body),
            (StatusCode::OK, Bytes::from_static(b"true"))
        );
        for protocols in [&["http/1.1"][..], &[]] {
            let mut http1 = Http1(tls(&server, protocols).await.unwrap());
            let head = http1.head_of("/protocol").await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert_eq!(http1.read_until("false").await, "false");
        }
    });
}

#[test]
fn responses_have_a_date_and_a_length() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let response = http2.open("/hello").await.unwrap();
        assert_eq!(response.headers()["content-length"], "5");
        assert!(
            response.headers()["date"]
                .to_str()
                .unwrap()
                .ends_with(" GMT")
        );
        let mut http1 = Http1::connect(&server).await;
        let head = http1.head_of("/hello").await.to_lowercase();
        assert!(head.contains("\r\ncontent-length: 5\r\n"), "{head}");
        assert!(head.contains("\r\ndate: "), "{head}");
    });
}

#[test]
fn other_methods_are_passed_on_and_head_has_no_body() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        for method in ["OPTIONS", "TRACE", "PATCH", "BREW"] {
            let (response, _) = http2.send(request(method, "/method"), true).await.unwrap();
            let mut response = response.await.unwrap();
            assert_eq!(
                read(response.body_mut(), method.len()).await,
                method.as_bytes()
            );
        }
        let (response, _) = http2.send(request("HEAD", "/hello"), true).await.unwrap();
        let mut response = response.await.unwrap();
        assert_eq!(response.headers()["content-length"], "5");
        assert_eq!(next(response.body_mut()).await.unwrap(), None);
    });
}

/// WA-1.
#[test]
fn a_watch_answers_before_its_first_event() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let mut response = http2.open("/watch/a").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        server.watches.feed("a").push("one\n");
        assert_eq!(read(response.body_mut(), 4).await, b"one\n");

        let mut http1 = Http1::connect(&server).await;
        let head = http1.head_of("/watch/b").await;
        assert!(
            head.to_lowercase().contains("transfer-encoding: chunked"),
            "{head}"
        );
        server.watches.feed("b").push("one\n");
        assert_eq!(http1.read_until("one\n\r\n").await, "4\r\none\n\r\n");
    });
}

#[test]
fn hundreds_of_watches_share_a_connection_and_each_gets_its_own_events_in_order() {
    const WATCHES: usize = 300;
    const EVENTS: usize = 20;
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let mut streams = Vec::new();
        for number in 0..WATCHES {
            streams.push(http2.open(&format!("/watch/{number}")).await.unwrap());
        }
        for event in 0..EVENTS {
            for number in 0..WATCHES {
                let feed = server.watches.feed(&number.to_string());
                feed.push(format!("{number}:{event}\n"));
            }
        }
        for (number, mut stream) in streams.into_iter().enumerate() {
            let expected: String = (0..EVENTS)
                .map(|event| format!("{number}:{event}\n"))
                .collect();
            let got = read(stream.body_mut(), expected.len()).await;
            assert_eq!(String::from_utf8(got).unwrap(), expected);
        }
    });
}

#[test]
fn a_client_that_resets_a_watch_is_rid_of_it_at_once() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let feed = server.watches.feed("a");
        let response = http2.open("/watch/a").await.unwrap();
        drop(response);
        until(|| feed.dropped() == 1).await;
        // The connection stays open.
        assert_eq!(http2.get("/hello").await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn a_client_that_hangs_up_is_rid_of_its_watches() {
    with_server(unlimited, async |server| {
        let feed = server.watches.feed("a");
        let mut http1 = Http1::connect(&server).await;
        http1.head_of("/watch/a").await;
        drop(http1);
        until(|| feed.dropped() == 1).await;
        let stream = tls(&server, &["h2"]).await.unwrap();
        let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
        let driving = actix_rt::spawn(connection);
        let (response, _) = requests
            .send_request(request("GET", "/watch/a"), true)
            .unwrap();
        let _response = response.await.unwrap();
        driving.abort();
        until(|| feed.dropped() == 2).await;
    });
}

#[test]
fn big_bodies_go_both_ways_whole() {
    const CHUNKS: usize = 128;
    with_server(unlimited, async |server| {
        let expected: Vec<u8> = (0..CHUNKS).flat_map(chunk).collect();
        let http2 = Http2::connect(&server).await;
        let (_, body) = http2.get(&format!("/chunks/{CHUNKS}")).await.unwrap();
        assert!(body == expected);
        let (_, body) = http2
            .get(&format!("/full/{}", CHUNKS * CHUNK))
            .await
            .unwrap();
        assert_eq!(body.len(), CHUNKS * CHUNK);
        let mut response = http2.post("/length/30000", body).await.unwrap();
        let length = (CHUNKS * CHUNK).to_string();
        assert_eq!(
            read(response.body_mut(), length.len()).await,
            length.as_bytes()
        );

        let mut http1 = Http1::connect(&server).await;
        http1.head_of(&format!("/chunks/{CHUNKS}")).await;
        let mut body = Vec::new();
        loop {
            let size = http1.read_until("\r\n").await;
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            if size == 0 {
                break;
            }
            let mut piece = vec![0; size + 2];
            http1.0.read_exact(&mut piece).await.unwrap();
            body.extend_from_slice(&piece[..size]);
        }
        assert!(body == expected);
    });
}

/// API-21: a body over the limit is refused without being read to its end.
#[test]
fn a_body_over_the_limit_is_refused_and_the_connection_lives_on() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let too_long = Bytes::from(vec![1; BODY_LIMIT + 1]);
        let response = http2.post("/length/30000", too_long).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(http2.get("/hello").await.unwrap().0, StatusCode::OK);

        let mut http1 = Http1::connect(&server).await;
        let length = BODY_LIMIT + 1;
        http1
            .write(&format!(
                "POST /length/30000 HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
            ))
            .await;
        let head = http1.read_until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    });
}

/// The server responds to the headers alone, as an overloaded server does.
#[test]
fn a_body_that_nobody_reads_may_still_be_sent() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let (response, mut body) = http2.send(request("POST", "/hello"), false).await.unwrap();
        assert_eq!(response.await.unwrap().status(), StatusCode::OK);
        assert_eq!(http2.get("/hello").await.unwrap().0, StatusCode::OK);
        let reset = poll_fn(|context| body.poll_reset(context)).now_or_never();
        assert!(reset.is_none(), "{reset:?}");
        body.send_data(Bytes::from_static(b"late"), true).unwrap();
        assert_eq!(http2.get("/hello").await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let (response, mut stream) = http2
            .send(request("POST", "/length/200"), false)
            .await
            .unwrap();
        stream
            .send_data(Bytes::from_static(b"some"), false)
            .unwrap();
        let status = response.await.unwrap().status();
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    });
}

#[test]
fn connections_are_spread_evenly_even_when_few() {
    with_threads(2, unlimited, async |server| {
        let mut clients = Vec::new();
        let mut spread = HashMap::new();
        for _ in 0..10 {
            let http2 = Http2::connect(&server).await;
            let (_, thread) = http2.get("/thread").await.unwrap();
            *spread.entry(thread).or_insert(0) += 1;
            clients.push(http2);
        }
        assert_eq!(spread.len(), 2);
        assert!(spread.values().all(|count| *count == 5), "{spread:?}");
    });
}

#[test]
fn a_thread_with_many_watches_gets_the_fewer_connections() {
    with_threads(2, unlimited, async |server| {
        let busy = Http2::connect(&server).await;
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(busy.open("/watch/a").await.unwrap());
        }
        let (_, busy_thread) = busy.get("/thread").await.unwrap();
        let mut others = Vec::new();
        for _ in 0..10 {
            let other = Http2::connect(&server).await;
            let (_, thread) = other.get("/thread").await.unwrap();
            assert_ne!(thread, busy_thread);
            others.push(other);
        }
    });
}

/// API-282: the service can request that a connection closes after a response.
#[test]
fn a_response_that_says_close_ends_the_connection_politely() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let mut response = http2.open("/close").await.unwrap();
        assert_eq!(response.headers().get("connection"), None);
        assert_eq!(read(response.body_mut(), 3).await, b"bye");
        until(|| http2.is_over()).await;
        assert!(matches!(*http2.ended.lock(), Some(Ok(()))));

        let mut http1 = Http1::connect(&server).await;
        let head = http1.head_of("/close").await;
        assert!(head.to_lowercase().contains("connection: close"), "{head}");
        assert_eq!(http1.rest().await, b"bye");
    });
}
