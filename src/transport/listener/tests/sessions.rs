//! Tests of sessions after an upgrade, and of bodies that are passed on.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Http1, Http2};
use super::{until, with_server};

#[test]
fn a_session_takes_the_connection_over_with_every_byte() {
    with_server(
        |_| {},
        async |server| {
            let mut http1 = Http1::connect(&server).await;
            // The connection may have had requests before.
            assert!(http1.head_of("/method").await.starts_with("HTTP/1.1 200"));
            assert_eq!(http1.read_until("GET").await, "GET");
            http1
                .write(
                    "POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
                     upgrade: echo\r\ncontent-length: 0\r\n\r\n",
                )
                .await;
            let head = http1.read_until("\r\n\r\n").await;
            assert!(
                head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
                "{head}"
            );
            assert!(head.contains("upgrade: echo\r\n"), "{head}");
            assert!(!head.contains("content-length"), "{head}");
            // Nothing of this is HTTP.
            let sent = b"GET /a#b HTTP/1.1\nx\n\n\0";
            http1.0.write_all(sent).await.unwrap();
            let mut got = [0; 24];
            http1.0.read_exact(&mut got[..sent.len()]).await.unwrap();
            assert_eq!(&got[..sent.len()], sent);
            http1.0.shutdown().await.unwrap();
            assert_eq!(http1.rest().await, b"last");
            let sessions = server.watches.feed("sessions");
            until(|| sessions.dropped() == 1).await;
        },
    );
}

#[test]
fn a_session_needs_a_request_for_an_upgrade_over_http1() {
    with_server(
        |_| {},
        async |server| {
            let mut http1 = Http1::connect(&server).await;
            let head = http1.head_of("/echo").await;
            assert!(head.starts_with("HTTP/1.1 400"), "{head}");
            let http2 = Http2::connect(&server).await;
            assert_eq!(http2.open("/echo").await.unwrap().status(), 400);
            let sessions = server.watches.feed("sessions");
            until(|| sessions.dropped() == 2).await;
        },
    );
}

#[test]
fn a_body_that_breaks_off_ends_abnormally_after_what_came() {
    with_server(
        |_| {},
        async |server| {
            let mut http1 = Http1::connect(&server).await;
            http1.head_of("/broken").await;
            // The last chunk is missing.
            assert_eq!(http1.rest().await, b"3\r\none\r\n");
            let http2 = Http2::connect(&server).await;
            let mut body = http2.open("/broken").await.unwrap().into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), "one");
            let reason = body.data().await.unwrap().unwrap_err().reason();
            assert_eq!(reason, Some(h2::Reason::INTERNAL_ERROR));
        },
    );
}

#[test]
fn trailers_are_passed_on() {
    with_server(
        |_| {},
        async |server| {
            let mut http1 = Http1::connect(&server).await;
            let request = "GET /trailers HTTP/1.1\r\nhost: localhost\r\nte: trailers\r\n\r\n";
            http1.write(request).await;
            http1.read_until("\r\n\r\n").await;
            let body = http1.read_until("0\r\nx-last: x-last\r\n\r\n").await;
            assert!(body.starts_with("3\r\none\r\n"), "{body}");
            let http2 = Http2::connect(&server).await;
            let mut body = http2.open("/trailers").await.unwrap().into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), "one");
            assert!(body.data().await.is_none());
            let trailers = body.trailers().await.unwrap().unwrap();
            assert_eq!(trailers["x-last"], "x-last");
        },
    );
}
