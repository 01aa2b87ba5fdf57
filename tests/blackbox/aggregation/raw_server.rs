//! An extension that speaks HTTP/1.1 by hand: it is available, echoes upgraded connections, counts
//! the bytes that it gets, and sends as many as its test wants, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::harness::webhook::acceptor;

/// A running server. It ends with the runtime of its test.
pub struct RawServer {
    pub port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    sent: AtomicU64,
    open: AtomicUsize,
}

impl RawServer {
    /// Starts it on 127.0.0.1.
    pub async fn start() -> RawServer {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["extension.default.svc".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let tls = acceptor(certificate.der(), &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = RawServer {
            port: listener.local_addr().unwrap().port(),
            counts: Arc::default(),
        };
        let counts = Arc::clone(&server.counts);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tls, counts) = (tls.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    // The daemon may close the connection at any time.
                    let _ = serve(socket, tls, &counts).await;
                });
            }
        });
        server
    }

    /// The bytes of request bodies that were received.
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// The bytes of answers that the kernel took.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// The requests below `/endless`, `/silent` and `/echo` that have not ended.
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }
}

/// A request that has not ended.
struct Open<'c>(&'c AtomicUsize);

impl<'c> Open<'c> {
    fn new(count: &'c AtomicUsize) -> Open<'c> {
        count.fetch_add(1, Ordering::Relaxed);
        Open(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn send(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn serve(socket: TcpStream, tls: TlsAcceptor, counts: &Counts) -> std::io::Result<()> {
    let mut stream = tls.accept(socket).await?;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let target = head.split(' ').nth(1).unwrap();
        if target.contains("/echo") {
            let _open = Open::new(&counts.open);
            return echo(stream, &head).await;
        }
        if target.contains("/silent") {
            let _open = Open::new(&counts.open);
            // The daemon breaks the request off.
            return tokio::io::copy(&mut stream, &mut tokio::io::sink())
                .await
                .map(drop);
        }
        if target.contains("/endless") {
            let _open = Open::new(&counts.open);
            let start = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\
                          transfer-encoding: chunked\r\n\r\n";
            send(&mut stream, start).await?;
            let line = [&[b'x'; 65535][..], b"\n"].concat();
            let chunk = [&b"10000\r\n"[..], &line, b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await?;
                counts.sent.fetch_add(65536, Ordering::Relaxed);
            }
        }
        receive(&mut stream, &head, counts).await?;
        let refused = target.contains("/refused");
        let code = if refused { "418 no" } else { "200 OK" };
        let body = if refused { "no upgrade here" } else { "{}" };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {code}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        send(&mut stream, answer.as_bytes()).await?;
    }
}

/// Answers 101 and sends everything back.
async fn echo(mut stream: TlsStream<TcpStream>, head: &str) -> std::io::Result<()> {
    let user = head.split("x-remote-user: ").nth(1).unwrap_or("\r\n");
    let user = user.split("\r\n").next().unwrap();
    assert!(head.contains("connection: upgrade\r\n"), "{head}");
    assert!(head.contains("upgrade: echo/1\r\n"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
    let early = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\
         X-Own: {user}\r\n\r\nearly "
    );
    send(&mut stream, early.as_bytes()).await?;
    let mut buffer = vec![0; 16384];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            send(&mut stream, b" late").await?;
            return stream.shutdown().await;
        }
        send(&mut stream, &buffer[..read]).await?;
    }
}

/// Reads the body of a request.
async fn receive(
    stream: &mut TlsStream<TcpStream>,
    head: &str,
    counts: &Counts,
) -> std::io::Result<()> {
    let length = head.split("content-length: ").nth(1);
    let length = length.map(|rest| rest.split("\r\n").next().unwrap().parse::<u64>().unwrap());
    let is_chunked = head.contains("transfer-encoding: chunked");
    let mut buffer = vec![0; 65536];
    let mut left = length.unwrap_or(0);
    loop {
        if left == 0 && is_chunked {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(stream.read_u8().await?);
            }
            let size = String::from_utf8(line).unwrap();
            left = u64::from_str_radix(size.trim(), 16).unwrap();
            if left == 0 {
                stream.read_exact(&mut [0; 2]).await?;
                return Ok(());
            }
        }
        while left > 0 {
            let most = usize::try_from(left).unwrap().min(buffer.len());
            let read = stream.read(&mut buffer[..most]).await?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            left -= read as u64;
            counts.received.fetch_add(read as u64, Ordering::Relaxed);
        }
        if !is_chunked {
            return Ok(());
        }
        stream.read_exact(&mut [0; 2]).await?;
    }
}
