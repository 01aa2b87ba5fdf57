//! A server of hooks over TLS that answers with any bytes, or with none.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::webhook::acceptor;

/// The reaction of the server to a request.
pub enum Act {
    /// It sends these bytes, and keeps the connection.
    Bytes(Vec<u8>),
    /// It sends these bytes and closes the connection.
    Close(Vec<u8>),
    /// It sends these bytes and resets the connection.
    Reset(Vec<u8>),
    /// It sends the first bytes, and the second ones again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// As `Endless`, with a pause after each.
    Drip(Vec<u8>, Vec<u8>),
    /// It sends nothing, and keeps the connection.
    Silence,
    /// It does the second thing when it is notified.
    After(Arc<Notify>, Box<Act>),
}

/// A request that the server got.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The first line and the headers.
    pub head: String,
    /// The body. Null for a request without one.
    pub review: Value,
}

impl Asked {
    /// The path, with the query.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// The uid of the review.
    pub fn uid(&self) -> &str {
        self.review["request"]["uid"].as_str().unwrap_or_default()
    }
}

type Respond = dyn Fn(&Asked) -> Act + Send + Sync;

/// A running server. It ends with the runtime of its test.
pub struct HostileServer {
    asked: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<Mutex<usize>>,
    /// The beginning of its URLs.
    pub url: String,
    pem: String,
}

impl HostileServer {
    /// Starts a server on 127.0.0.1.
    pub async fn start(respond: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> HostileServer {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let tls = acceptor(certificate.der(), &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = HostileServer {
            asked: Arc::default(),
            ended: Arc::default(),
            url: format!("https://{}", listener.local_addr().unwrap()),
            pem: certificate.pem(),
        };
        let (asked, ended) = (Arc::clone(&server.asked), Arc::clone(&server.ended));
        let respond: Arc<Respond> = Arc::new(respond);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let serving = serve(
                    socket,
                    tls.clone(),
                    Arc::clone(&asked),
                    Arc::clone(&respond),
                );
                let ended = Arc::clone(&ended);
                tokio::spawn(async move {
                    // The daemon may close the connection at any time.
                    let _ = serving.await;
                    *ended.lock().unwrap() += 1;
                });
            }
        });
        server
    }

    /// Returns a URL at which connections are accepted, and no handshake is answered.
    pub async fn mute() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                held.push(listener.accept().await.unwrap());
            }
        });
        url
    }

    /// A `clientConfig` that names a path of it and trusts its certificate.
    pub fn client_config(&self, path: &str) -> Value {
        let bundle = BASE64_STANDARD.encode(&self.pem);
        json!({"url": format!("{}{path}", self.url), "caBundle": bundle})
    }

    /// A `caBundle` that trusts it and another one.
    pub fn bundle_with(&self, other: &HostileServer) -> String {
        BASE64_STANDARD.encode(format!("{}{}", self.pem, other.pem))
    }

    /// The requests that it has got.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it has got so many requests.
    pub async fn until_asked(&self, count: usize) {
        self.until(|| self.asked.lock().unwrap().len() >= count)
            .await;
    }

    /// Waits until so many connections have ended.
    pub async fn until_ended(&self, count: usize) {
        self.until(|| self.ended() >= count).await;
    }

    async fn until(&self, is: impl Fn() -> bool) {
        for _ in 0..6_000 {
            if is() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} requests, {} ended", self.asked().len(), self.ended());
    }

    /// How many connections have ended.
    pub fn ended(&self) -> usize {
        *self.ended.lock().unwrap()
    }
}

async fn serve(
    socket: TcpStream,
    tls: TlsAcceptor,
    asked: Arc<Mutex<Vec<Asked>>>,
    respond: Arc<Respond>,
) -> std::io::Result<()> {
    let mut stream = tls.accept(socket).await?;
    loop {
        let request = read(&mut stream).await?;
        let mut act = respond(&request);
        if let Act::After(notify, then) = act {
            // Created before anybody can see the request, so that no notice is lost.
            let notified = notify.notified();
            asked.lock().unwrap().push(request);
            notified.await;
            act = *then;
        } else {
            asked.lock().unwrap().push(request);
        }
        match act {
            Act::After(..) => panic!("it waits twice"),
            Act::Bytes(bytes) => send(&mut stream, &bytes).await?,
            Act::Close(bytes) => {
                send(&mut stream, &bytes).await?;
                return stream.shutdown().await;
            }
            Act::Reset(bytes) => {
                send(&mut stream, &bytes).await?;
                return stream.get_ref().0.set_zero_linger();
            }
            Act::Endless(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
            Act::Drip(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    send(&mut stream, &again).await?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Act::Silence => {
                // Ends when the daemon closes the connection.
                stream.read_u8().await?;
            }
        }
    }
}

/// Sends bytes. TLS keeps some of them if the socket is full, until it is flushed.
async fn send(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn read(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let lower = head.to_lowercase();
    let length = lower.split_once("content-length: ").map_or(0, |(_, rest)| {
        rest.split("\r\n").next().unwrap().parse().unwrap()
    });
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let review = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Asked { head, review })
}

/// An answer over HTTP/1.1.
pub fn http(code: u16, headers: &str, body: impl Into<Vec<u8>>) -> Act {
    let body = body.into();
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {code} X\r\n{headers}content-length: {length}\r\n\r\n").into_bytes();
    bytes.extend(body);
    Act::Bytes(bytes)
}
