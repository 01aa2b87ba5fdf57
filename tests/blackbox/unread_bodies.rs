//! HTTP/1.1 requests that are answered before their bodies arrive, or without them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::harness::{CONFIGMAPS, Daemon};

const TIMEOUT: Duration = Duration::from_secs(30);

struct Connection(TlsStream<TcpStream>);

impl Connection {
    async fn open(daemon: &Daemon) -> Connection {
        Connection(daemon.target().tls(&[b"http/1.1"]).await.unwrap())
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Header and body of the next answer.
    async fn answer(&mut self) -> (String, String) {
        tokio::time::timeout(TIMEOUT, answer(&mut self.0))
            .await
            .expect("an answer")
    }

    /// Whether the server has closed its end in order.
    async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let read = tokio::time::timeout(TIMEOUT, self.0.read(&mut byte)).await;
        matches!(read, Ok(Ok(0)))
    }
}

async fn answer(stream: &mut (impl AsyncReadExt + Unpin)) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.expect("an answer and no reset");
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn post(headers: &str) -> String {
    format!("POST {CONFIGMAPS} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n\r\n")
}

#[tokio::test]
async fn an_answer_before_the_body_says_that_the_connection_closes() {
    let daemon = Daemon::start().await;
    for headers in ["content-length: 1000", "transfer-encoding: chunked"] {
        let mut connection = Connection::open(&daemon).await;
        connection.send(&post(headers)).await;
        let (head, body) = connection.answer().await;
        assert!(head.starts_with("http/1.1 403"), "{head}");
        assert!(head.contains("connection: close\r\n"), "{head}");
        assert!(body.contains("Forbidden"), "{body}");
        assert!(connection.is_closed().await, "{headers}");
    }
}

#[tokio::test]
async fn who_waits_to_be_told_to_send_is_not_told_before_a_refusal() {
    let daemon = Daemon::start().await;
    let mut connection = Connection::open(&daemon).await;
    let headers = "content-length: 1000\r\nexpect: 100-continue";
    connection.send(&post(headers)).await;
    let (head, _) = connection.answer().await;
    assert!(head.starts_with("http/1.1 403"), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert!(connection.is_closed().await);
}

#[tokio::test]
async fn a_client_that_goes_on_uploading_reads_the_refusal_and_no_reset() {
    // API-21.
    let daemon = Daemon::start().await;
    let token = daemon.target().token.unwrap();
    for (headers, code) in [
        (format!("authorization: Bearer {token}"), 413),
        ("x-nobody: 1".to_owned(), 403),
    ] {
        let mut connection = Connection::open(&daemon).await;
        let length = 8 << 20;
        let headers = format!("{headers}\r\ncontent-length: {length}");
        connection.send(&post(&headers)).await;
        let (mut reading, mut writing) = split(connection.0);
        let upload = async {
            for _ in 0..length / 65_536 {
                writing.write_all(&[b' '; 65_536]).await.unwrap();
            }
        };
        let ((), (head, body)) = tokio::time::timeout(TIMEOUT, async {
            tokio::join!(upload, answer(&mut reading))
        })
        .await
        .unwrap();
        assert!(head.starts_with(&format!("http/1.1 {code}")), "{head}");
        assert!(head.contains("connection: close\r\n"), "{head}");
        assert!(body.contains("\"kind\":\"Status\""), "{body}");
    }
}

#[tokio::test]
async fn a_short_body_that_nobody_reads_leaves_the_connection_as_it_is() {
    let daemon = Daemon::start().await;
    let mut connection = Connection::open(&daemon).await;
    for _ in 0..3 {
        connection.send(&post("content-length: 1000")).await;
        connection.send(&"x".repeat(1000)).await;
        let (head, _) = connection.answer().await;
        assert!(head.starts_with("http/1.1 403"), "{head}");
        assert!(!head.contains("connection: close"), "{head}");
    }
}
