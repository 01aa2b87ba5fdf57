//! Tests of flow control: a client that does not read delays no other client and holds no memory.

use std::time::Duration;

use h2::client::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Http1, Http2, next, read, tls};
use super::service::{CHUNK, chunk};
use super::{until, with_server};
use crate::transport::limits::Limits;

/// The window of a stream unless a test sets another.
const WINDOW: usize = 65_535;

fn unlimited(_: &mut Limits) {}

#[test]
fn a_stalled_stream_holds_up_no_other_and_takes_no_more_than_its_window() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let stalled = server.watches.feed("stalled");
        stalled.never_ends(vec![1; 1000]);
        let _unread = http2.open("/watch/stalled").await.unwrap();
        let mut lively = http2.open("/watch/lively").await.unwrap();
        let feed = server.watches.feed("lively");
        for event in 0..100 {
            feed.push(format!("{event:04}"));
            assert_eq!(
                read(lively.body_mut(), 4).await,
                format!("{event:04}").as_bytes()
            );
        }
        // The frame that did not fit is the last one that the server took.
        assert_eq!(stalled.taken(), WINDOW.div_ceil(1000));
    });
}

#[test]
fn a_stream_without_any_window_takes_nothing() {
    with_server(unlimited, async |server| {
        let mut builder = Builder::new();
        builder.initial_window_size(0);
        let http2 = Http2::with(&server, &builder).await;
        let feed = server.watches.feed("a");
        feed.never_ends("event\n");
        let response = http2.open("/watch/a").await.unwrap();
        assert_eq!(http2.open("/method").await.unwrap().status(), 200);
        assert_eq!(feed.taken(), 0);
        drop(response);
        until(|| feed.dropped() == 1).await;
    });
}

#[test]
fn a_frame_larger_than_the_window_goes_out_in_parts() {
    with_server(unlimited, async |server| {
        let mut builder = Builder::new();
        builder.initial_window_size(1000);
        let http2 = Http2::with(&server, &builder).await;
        let frame: Vec<u8> = (0..50_000).map(|n| (n % 251) as u8).collect();
        let feed = server.watches.feed("a");
        feed.push(frame.clone());
        feed.push("after");
        let mut response = http2.open("/watch/a").await.unwrap();
        let got = read(response.body_mut(), frame.len() + 5).await;
        assert!(got == [&frame[..], b"after"].concat());
    });
}

#[test]
fn frames_of_a_watch_that_are_there_together_go_out_together() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        for (path, length, pieces_max) in [("short", 100, 1), ("long", 1_000, 6)] {
            let feed = server.watches.feed(path);
            let frames: Vec<Vec<u8>> = (0..40).map(|number| vec![number; length]).collect();
            for frame in &frames {
                feed.push(frame.clone());
            }
            let mut response = http2.open(&format!("/watch/{path}")).await.unwrap();
            let (mut got, mut pieces) = (Vec::new(), 0);
            while got.len() < 40 * length {
                got.extend(next(response.body_mut()).await.unwrap().unwrap());
                pieces += 1;
            }
            assert!(pieces <= pieces_max, "{path}: {pieces}");
            assert!(got == frames.concat());
        }
    });
}

#[test]
fn the_window_of_the_connection_is_shared_by_its_streams() {
    with_server(unlimited, async |server| {
        // The connection gets no more window than one stream.
        let http2 = Http2::with(&server, &Builder::new()).await;
        let mut streams = Vec::new();
        for number in 0..8 {
            server
                .watches
                .feed(&number.to_string())
                .push(vec![number; 40_000]);
            streams.push(http2.open(&format!("/watch/{number}")).await.unwrap());
        }
        // Read all at once, because the unread ones may hold the whole window.
        let reading = streams
            .iter_mut()
            .map(|stream| read(stream.body_mut(), 40_000));
        let bodies = futures_util::future::join_all(reading).await;
        for (number, body) in bodies.into_iter().enumerate() {
            assert!(body == vec![number as u8; 40_000]);
        }
    });
}

#[test]
fn what_watches_keep_of_the_window_is_given_back_when_it_runs_short() {
    with_server(unlimited, async |server| {
        let http2 = Http2::with(&server, &Builder::new()).await;
        let mut streams = Vec::new();
        for number in 0..20 {
            let feed = server.watches.feed(&number.to_string());
            let response = http2.open(&format!("/watch/{number}")).await.unwrap();
            streams.push((feed, response));
        }
        // The client returns no window, so the whole initial window must reach the streams that
        // need it.
        for round in 0..3 {
            for (feed, response) in &mut streams {
                feed.push(vec![round; 1_000]);
                let mut got = 0;
                while got < 1_000 {
                    got += response.body_mut().data().await.unwrap().unwrap().len();
                }
            }
        }
    });
}

/// Opens watches that were each sent `frames` frames at once and are now quiet.
async fn quiet_watches(
    server: &super::TestServer,
    http2: &Http2,
    watches: usize,
    frames: usize,
) -> Vec<http::Response<h2::RecvStream>> {
    let mut streams = Vec::new();
    for number in 0..watches {
        let name = format!("{frames}-{number}");
        let feed = server.watches.feed(&name);
        (0..frames).for_each(|_| feed.push(vec![1; 100]));
        let mut response = http2.open(&format!("/watch/{name}")).await.unwrap();
        assert_eq!(
            read(response.body_mut(), 100 * frames).await.len(),
            100 * frames
        );
        streams.push(response);
    }
    streams
}

#[test]
fn what_quiet_watches_keep_of_the_window_reaches_other_responses() {
    for path in ["/full/40000", "/full/100000", "/chunks/2"] {
        with_server(unlimited, async |server| {
            let http2 = Http2::with(&server, &Builder::new()).await;
            let _quiet = quiet_watches(&server, &http2, 3, 1).await;
            assert_eq!(http2.get(path).await.unwrap().0, 200, "{path}");
        });
    }
}

#[test]
fn watches_that_were_sent_several_frames_at_once_keep_no_window_when_it_is_short() {
    with_server(unlimited, async |server| {
        let http2 = Http2::with(&server, &Builder::new()).await;
        let _short = quiet_watches(&server, &http2, 8, 1).await;
        let _quiet = quiet_watches(&server, &http2, 8, 2).await;
        for _ in 0..4 {
            assert_eq!(http2.get("/full/20000").await.unwrap().0, 200);
        }
        assert_eq!(http2.get("/chunks/2").await.unwrap().0, 200);
    });
}

#[test]
fn a_client_that_opens_its_window_again_goes_on_where_it_was() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let mut response = http2.open("/chunks/40").await.unwrap();
        let mut all = Vec::new();
        // The body stalls unless its client returns window.
        while all.len() < WINDOW {
            let data = response.body_mut().data().await.unwrap().unwrap();
            all.extend_from_slice(&data);
        }
        assert_eq!(all.len(), WINDOW);
        assert_eq!(http2.get("/hello").await.unwrap().0, 200);
        response
            .body_mut()
            .flow_control()
            .release_capacity(WINDOW)
            .unwrap();
        all.extend(read(response.body_mut(), 40 * CHUNK - WINDOW).await);
        assert!(all == (0..40).flat_map(chunk).collect::<Vec<_>>());
    });
}

/// The socket itself is full because the client reads nothing at all.
#[test]
fn a_client_that_reads_nothing_is_sent_no_more_than_its_socket_holds() {
    with_server(unlimited, async |server| {
        let mut http1 = Http1::connect(&server).await;
        let feed = server.watches.feed("a");
        feed.never_ends(vec![1; 10_000]);
        http1
            .write("GET /watch/a HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        // With windows as large as those of Go clients, only the socket holds data back.
        let mut stream = tls(&server, &["h2"]).await.unwrap();
        let many = server.watches.feed("b");
        many.never_ends(vec![1; 10_000]);
        stream.write_all(&opening("/watch/b")).await.unwrap();
        until(|| feed.taken() > 0 && many.taken() > 0).await;
        let mut before = (0, 0);
        until(|| {
            std::thread::sleep(Duration::from_millis(100));
            let now = (feed.taken(), many.taken());
            std::mem::replace(&mut before, now) == now
        })
        .await;
        for taken in [before.0, before.1] {
            assert!(taken * 10_000 < 32 << 20, "{taken} frames");
        }
        let other = Http2::connect(&server).await;
        assert_eq!(other.get("/hello").await.unwrap().0, 200);
    });
}

/// The bytes of a connection with windows of 1 GiB and one request. They are written by hand,
/// because a real client would read.
fn opening(path: &str) -> Vec<u8> {
    const WINDOW: u32 = 1 << 30;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS: INITIAL_WINDOW_SIZE.
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4]);
    bytes.extend(WINDOW.to_be_bytes());
    // WINDOW_UPDATE of the connection.
    bytes.extend([0, 0, 4, 8, 0, 0, 0, 0, 0]);
    bytes.extend((WINDOW - 65_535).to_be_bytes());
    // HEADERS: GET, https, localhost, the path; END_STREAM and END_HEADERS.
    let mut block = vec![0x82, 0x87, 0x41, 9];
    block.extend(b"localhost");
    block.extend([0x44, path.len() as u8]);
    block.extend(path.bytes());
    bytes.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    bytes
}

#[test]
fn a_response_nobody_takes_is_given_up_but_a_watch_waits() {
    let patience = |limits: &mut Limits| {
        limits.inspection_interval = Duration::from_millis(20);
        limits.stalled_after = Duration::from_millis(60);
    };
    with_server(patience, async |server| {
        let http2 = Http2::connect(&server).await;
        let feed = server.watches.feed("a");
        feed.never_ends(vec![1; 1000]);
        let watch = http2.open("/watch/a").await.unwrap();
        let mut list = http2.open("/chunks/40").await.unwrap();
        let mut read = 0;
        let ended = loop {
            match list.body_mut().data().await {
                Some(Ok(data)) => read += data.len(),
                other => break other,
            }
        };
        assert!(read < 40 * CHUNK);
        assert_eq!(
            ended.unwrap().unwrap_err().reason(),
            Some(h2::Reason::CANCEL)
        );
        assert_eq!(feed.dropped(), 0);
        drop(watch);
        until(|| feed.dropped() == 1).await;
    });
}

/// More frames than sockets hold.
const MANY: usize = 2000;

#[test]
fn over_http1_too_a_response_nobody_takes_is_given_up_and_a_watch_later() {
    let patience = |limits: &mut Limits| {
        limits.stalled_after = Duration::from_millis(100);
        limits.dead_after = Duration::from_secs(4);
    };
    with_server(patience, async |server| {
        let (feed, chunks) = (server.watches.feed("a"), server.watches.feed("chunks"));
        feed.never_ends(vec![1; 10_000]);
        let mut watch = Http1::connect(&server).await;
        watch.head_of("/watch/a").await;
        let mut list = Http1::connect(&server).await;
        list.head_of(&format!("/chunks/{MANY}")).await;
        until(|| chunks.dropped() == 1).await;
        assert_eq!(feed.dropped(), 0);
        assert!(list.rest().await.len() < MANY * CHUNK);
        until(|| feed.dropped() == 1).await;
    });
}

#[test]
fn a_client_that_reads_slowly_gets_everything_over_http1() {
    let idle = |limits: &mut Limits| limits.idle_timeout = Duration::from_secs(3);
    with_server(idle, async |server| {
        let mut list = Http1::connect(&server).await;
        list.head_of("/full/100000000").await;
        let mut piece = vec![0; 10_000_000];
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            list.0.read_exact(&mut piece).await.unwrap();
        }
    });
}
