//! Requests for another protocol, passed on to an extension (CN-35).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::raw_server::RawServer;
use super::{GROUP, PATIENCE, install_at};
use crate::harness::upgrades::Asked;
use crate::harness::{Call, Daemon};

const WITHIN: &str = "/apis/a.example/v1/namespaces/default";

/// Asks for an upgrade. Returns the connection, and the head of the answer.
async fn ask(daemon: &Daemon, path: &str) -> (TlsStream<TcpStream>, String) {
    let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    let token = daemon.token();
    let head = format!(
        "GET {WITHIN}/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Connection: Upgrade\r\nUpgrade: echo/1\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    loop {
        read.push(stream.read_u8().await.unwrap());
        if read.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(read).unwrap().to_lowercase();
            return (stream, head);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_connections_are_relayed_both_ways_cn_35() {
    let daemon = Daemon::start().await;
    let (client, server) = (daemon.client(), RawServer::start().await);
    install_at(&client, GROUP, server.port).await;
    let (mut stream, head) = ask(&daemon, "echo?b=1&a=2").await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    for line in ["connection: upgrade", "upgrade: echo/1", "x-own: admin"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let mut early = [0; 6];
    stream.read_exact(&mut early).await.unwrap();
    assert_eq!(&early, b"early ");
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let mut back = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut back));
    // The daemon ends the connection without a last message of TLS, or with one.
    let _ = reading.await.expect("it ends");
    drop(writing.await.unwrap());
    assert_eq!(back.len(), expected.len() + 5);
    assert!(back.starts_with(&expected) && back.ends_with(b" late"));
    // A client that goes away ends the other side, too.
    let (stream, _) = ask(&daemon, "echo").await;
    assert_eq!(server.open(), 1);
    drop(stream);
    while server.open() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_upgrades_are_ordinary_answers_cn_35() {
    let daemon = Daemon::start().await;
    let (client, server) = (daemon.client(), RawServer::start().await);
    install_at(&client, GROUP, server.port).await;
    for (path, code, body) in [
        ("refused", "418", "no upgrade here"),
        (
            "plain",
            "503",
            "invalid upgrade response: status code 200\n",
        ),
    ] {
        let (mut stream, head) = ask(&daemon, path).await;
        assert!(
            head.starts_with(&format!("http/1.1 {code} ")),
            "{path}: {head}"
        );
        let mut answer = vec![0; body.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), body, "{path}");
        // The connection goes on.
        let next = format!(
            "GET /version HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
            daemon.token()
        );
        stream.write_all(next.as_bytes()).await.unwrap();
        let mut head = [0; 15];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK", "{path}");
    }
    // Without the wish for an upgrade it is an ordinary request.
    client
        .call(Call::get(&format!("{WITHIN}/plain")))
        .await
        .expect(200);
}

/// They last, so they have seats of watches, and leave those of requests to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_connections_take_no_seats_of_requests_cn_35() {
    let flags = [
        "--max-requests-inflight=8",
        "--authorization-mode=AlwaysAllow",
    ];
    let daemon = Daemon::with_users("t-ada,ada,1\n", &flags).await;
    let server = RawServer::start().await;
    install_at(&daemon.client(), GROUP, server.port).await;
    let ada = daemon.target().with_token("t-ada");
    let mut sessions = Vec::new();
    for _ in 0..9 {
        let asked = Asked::new("GET", &format!("{WITHIN}/echo"), "echo/1");
        sessions.push(asked.send(&ada).await.unwrap());
    }
    assert_eq!(server.open(), 9);
    let maps = Call::get("/api/v1/namespaces/default/configmaps");
    ada.client().call(maps).await.expect(200);
}
