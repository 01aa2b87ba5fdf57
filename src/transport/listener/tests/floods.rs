//! Tests with malicious clients.

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Http1, Http2, request, tls};
use super::{until, with_server};
use crate::transport::limits::Limits;

fn unlimited(_: &mut Limits) {}

#[test]
fn connections_over_the_limit_are_closed_and_room_is_made_again() {
    with_server(
        |limits| limits.connections = 2,
        async |server| {
            let first = Http2::connect(&server).await;
            let second = Http1::connect(&server).await;
            assert_eq!(first.get("/hello").await.unwrap().0, StatusCode::OK);
            let mut third = TcpStream::connect(server.address).await.unwrap();
            let closed = third.read(&mut [0; 1]).await;
            assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
            drop(second);
            loop {
                match tls(&server, &["http/1.1"]).await {
                    Ok(stream) => {
                        let mut later = Http1(stream);
                        assert!(later.head_of("/hello").await.starts_with("HTTP/1.1 200"));
                        break;
                    }
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        },
    );
}

#[test]
fn a_flood_of_resets_hurts_nobody_else() {
    with_server(unlimited, async |server| {
        let victim = Http2::connect(&server).await;
        let attacker = Http2::connect(&server).await;
        for _ in 0..20_000 {
            // The server may end this connection at any time.
            let Ok((_, mut stream)) = attacker.send(request("GET", "/sleep/10000"), true).await
            else {
                break;
            };
            stream.send_reset(h2::Reason::CANCEL);
        }
        assert_eq!(victim.get("/hello").await.unwrap().0, StatusCode::OK);
        // The requests end with their connection.
        until(|| attacker.is_over() || server.watches.feed("sleepers").opened() < 20_000).await;
        assert_eq!(victim.get("/hello").await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn more_streams_than_allowed_are_refused() {
    with_server(
        |limits| limits.streams = 10,
        async |server| {
            // Written by hand, because a client library would wait until streams are free.
            let mut stream = tls(&server, &["h2"]).await.unwrap();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            let mut block = vec![0x82, 0x87, 0x41, 9];
            block.extend(b"localhost");
            block.extend([0x44, 8]);
            block.extend(b"/watch/a");
            for number in 0..30_u32 {
                bytes.extend([0, 0, block.len() as u8, 1, 5]);
                bytes.extend((2 * number + 1).to_be_bytes());
                bytes.extend(&block);
            }
            stream.write_all(&bytes).await.unwrap();
            let feed = server.watches.feed("a");
            until(|| feed.opened() >= 10).await;
            let http2 = Http2::connect(&server).await;
            assert_eq!(http2.get("/hello").await.unwrap().0, StatusCode::OK);
            assert_eq!(http2.requests.current_max_send_streams(), 10);
            assert_eq!(feed.opened(), 10);
        },
    );
}

#[test]
fn a_header_that_is_too_large_is_refused() {
    with_server(unlimited, async |server| {
        let http2 = Http2::connect(&server).await;
        let large = Request::get("https://localhost/hello")
            .header("x-large", "x".repeat(100_000))
            .body(())
            .unwrap();
        let answered = match http2.send(large, true).await {
            Ok((response, _)) => response.await.map(|response| response.status()),
            Err(error) => Err(error),
        };
        if let Ok(status) = answered {
            assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }

        let mut http1 = Http1::connect(&server).await;
        let line = "x".repeat(100_000);
        http1
            .write(&format!(
                "GET /hello HTTP/1.1\r\nhost: localhost\r\nx: {line}"
            ))
            .await;
        let head = http1.read_until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 431"), "{head}");

        let other = Http2::connect(&server).await;
        assert_eq!(other.get("/hello").await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn a_flood_of_header_continuations_ends_the_connection_only() {
    with_server(unlimited, async |server| {
        let mut attacker = tls(&server, &["h2"]).await.unwrap();
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        // HEADERS without END_HEADERS, then endless CONTINUATION frames.
        bytes.extend([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]);
        attacker.write_all(&bytes).await.unwrap();
        let mut continuation = vec![0, 0x40, 0, 9, 0, 0, 0, 0, 1];
        for _ in 0..0x4000 / 8 {
            // A literal header that is never indexed: "a" with four bytes.
            continuation.extend([0x10, 1, b'a', 4, b'b', b'b', b'b', b'b']);
        }
        let mut written = 0;
        while attacker.write_all(&continuation).await.is_ok() && attacker.flush().await.is_ok() {
            written += continuation.len();
            assert!(written < 256 << 20, "the server accepts headers for ever");
        }
        let other = Http2::connect(&server).await;
        assert_eq!(other.get("/hello").await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn nonsense_ends_the_connection_only() {
    with_server(unlimited, async |server| {
        for protocol in ["h2", "http/1.1"] {
            let mut stream = tls(&server, &[protocol]).await.unwrap();
            let _ = stream.write_all(&[0xff; 1000]).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
        let mut plain = TcpStream::connect(server.address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = plain.read_to_end(&mut rest).await;
        let http2 = Http2::connect(&server).await;
        let (status, body) = http2.get("/hello").await.unwrap();
        assert_eq!(
            (status, body),
            (StatusCode::OK, Bytes::from_static(b"hello"))
        );
    });
}
