//! A stand-in for the server of a kubelet, over HTTP/1.1 and TLS, which asks for the certificate of
//! the API server.
//!
//! The name of a container says what it does:
//!
//! - `status-N` answers with that status, and `redirect` with a redirect.
//! - `cut` sends less than it announces, `silent` closes, `never` doesn't answer, and `heads` sends
//!   headers without an end.
//! - `open` sends `one` and, when the stand-in is released, `two` and the end.
//! - `bytes-N` answers a log with that many bytes, and so an upgrade; then it reads as many.
//! - `paced-N` answers a log without an end, of that many bytes a second.
//! - `command` runs a command over SPDY or a WebSocket, see [`super::commands`]. A pod `forward`
//!   forwards ports over either, see there and [`super::sockets`].
//! - Others answer a log with its query, and an upgrade with 101: a WebSocket with v4 gets a
//!   message, and everybody the bytes that they send.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{commands, sockets};
use crate::harness::upgrades::header;
use crate::harness::{Call, Client};

/// The message of a WebSocket: `hello` on channel 1, and an empty one on channel 3.
pub const HELLO: &[u8] = b"\x82\x06\x01hello\x82\x01\x03";

/// A running stand-in. It ends with the runtime of its test.
pub struct Kubelet {
    pub address: SocketAddr,
    state: Arc<State>,
    folder: TempDir,
}

#[derive(Default)]
struct State {
    heads: Mutex<Vec<String>>,
    open: AtomicUsize,
    released: Notify,
}

/// An authority that signs certificates.
struct Authority {
    pem: String,
    der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        let subject = &mut parameters.distinguished_name;
        subject.push(rcgen::DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = parameters.self_signed(&key).unwrap();
        Authority {
            pem: own.pem(),
            der: own.der().to_vec(),
            issuer: Issuer::new(parameters, key),
        }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

impl Kubelet {
    /// Starts a stand-in whose certificate names 127.0.0.1.
    pub async fn start() -> Kubelet {
        Kubelet::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// Starts a stand-in at an address, which its certificate names.
    pub async fn start_at(address: Ipv4Addr) -> Kubelet {
        let (own, clients) = (Authority::new("kubelets"), Authority::new("clients"));
        let (certificate, key) = own.sign(&address.to_string());
        let (client, client_key) = clients.sign("api-server");
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("ca.crt", own.pem),
            ("other.crt", Authority::new("others").pem),
            ("client.crt", client.pem()),
            ("client.key", client_key.serialize_pem()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(clients.der.into()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let kubelet = Kubelet {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
            folder,
        };
        let state = Arc::clone(&kubelet.state);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tls, state) = (tls.clone(), Arc::clone(&state));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else {
                        return;
                    };
                    state.open.fetch_add(1, Ordering::SeqCst);
                    // The daemon may close the connection at any time.
                    let _ = serve(stream, &state).await;
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        kubelet
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flags with which a daemon knows it.
    pub fn flags(&self) -> Vec<String> {
        [
            ("kubelet-certificate-authority", "ca.crt"),
            ("kubelet-client-certificate", "client.crt"),
            ("kubelet-client-key", "client.key"),
        ]
        .map(|(flag, name)| format!("--{flag}={}", self.file(name).display()))
        .into()
    }

    /// The flags of a daemon that trusts another authority.
    pub fn distrusting_flags(&self) -> Vec<String> {
        let other = self.file("other.crt");
        let mut flags = self.flags();
        flags[0] = format!("--kubelet-certificate-authority={}", other.display());
        flags
    }

    /// Makes a node whose kubelet it is, and a pod on it with these containers.
    pub async fn join(&self, client: &Client, node: &str, pod: &str, containers: &[&str]) {
        let created = json!({"metadata": {"name": node}});
        client
            .call(Call::post("/api/v1/nodes", &created))
            .await
            .expect(201);
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": self.address.ip().to_string()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.address.port()}},
        }});
        let patch = Call::merge_patch(&format!("/api/v1/nodes/{node}/status"), &status);
        client.call(patch).await.expect(200);
        pod_on(client, node, pod, containers).await;
    }

    /// The requests so far: the first line and the headers of each.
    pub fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }

    /// The path and query of the last request.
    pub fn asked(&self) -> String {
        let heads = self.heads();
        heads.last().unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    /// Lets the container `open` go on.
    pub fn release(&self) {
        self.state.released.notify_one();
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }
}

/// Makes a pod on a node.
pub async fn pod_on(client: &Client, node: &str, pod: &str, containers: &[&str]) {
    let containers = containers
        .iter()
        .map(|name| json!({"name": name, "image": "i"}));
    let containers: Vec<Value> = containers.collect();
    let spec = json!({"nodeName": node, "containers": containers});
    let created = json!({"metadata": {"name": pod}, "spec": spec});
    let path = "/api/v1/namespaces/default/pods";
    client.call(Call::post(path, &created)).await.expect(201);
}

async fn serve(mut stream: TlsStream<TcpStream>, state: &State) -> std::io::Result<()> {
    while let Some(head) = read_head(&mut stream).await? {
        state.heads.lock().unwrap().push(head.clone());
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default();
        let container = path.rsplit('/').next().unwrap_or_default();
        let upgrade = header(&head, "upgrade");
        match (container.split_once('-'), container, upgrade) {
            (Some(("status", code)), _, _) => {
                let text = format!("the kubelet says {code}");
                answer(&mut stream, &format!("{code} Said"), "text/x-said", &text).await?;
            }
            (Some(("bytes", count)), _, None) => {
                return log(&mut stream, count.parse().unwrap()).await;
            }
            (Some(("bytes", count)), _, Some(upgrade)) => {
                let count = count.parse().unwrap();
                return both_ways(stream, &upgrade, count).await;
            }
            (Some(("paced", rate)), _, _) => {
                return paced(&mut stream, rate.parse().unwrap()).await;
            }
            (_, "redirect", _) => {
                let head = "HTTP/1.1 302 Found\r\nLocation: /healthz\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
            }
            (_, "cut", _) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun\n";
                stream.write_all(head.as_bytes()).await?;
                return stream.shutdown().await;
            }
            (_, "silent", _) => return stream.shutdown().await,
            (_, "heads", _) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                loop {
                    stream.write_all(b"x-endless: header\r\n").await?;
                }
            }
            (_, "never", _) => {
                // The daemon breaks the request off.
                let mut byte = [0];
                return stream.read(&mut byte).await.map(drop);
            }
            (_, "open", _) => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                let mut byte = [0];
                tokio::select! {
                    () = state.released.notified() => {}
                    // The daemon breaks the request off.
                    _ = stream.read(&mut byte) => return Ok(()),
                }
                stream.write_all(b"4\r\ntwo\n\r\n0\r\n\r\n").await?;
            }
            (_, "plain", Some(_)) => answer(&mut stream, "200 OK", "text/plain", "no").await?,
            (_, "command", Some(upgrade)) if upgrade.eq_ignore_ascii_case("websocket") => {
                return sockets::command(stream, &head, &target).await;
            }
            (_, "forward", Some(upgrade)) if upgrade.eq_ignore_ascii_case("spdy/3.1") => {
                return commands::forward(stream).await;
            }
            (_, "forward", Some(_)) => return sockets::forward(stream, &head, &target).await,
            (_, "command", Some(_)) => return commands::run(stream, &head, &target).await,
            (_, _, Some(upgrade)) => return upgraded(stream, &head, &upgrade).await,
            _ => answer(&mut stream, "200 OK", "text/x-log", &format!("{target}\n")).await?,
        }
    }
    Ok(())
}

/// Reads the head of a request; `None` at the end.
async fn read_head(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(String::from_utf8(head).unwrap()))
}

async fn answer(
    stream: &mut TlsStream<TcpStream>,
    status: &str,
    of: &str,
    body: &str,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {of}\r\nContent-Length: {}\r\nX-Own: kubelet\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await
}

/// Bytes that are sent again and again: whole records of TLS. They would be 32,768 frames of a
/// WebSocket.
static BLOCK: [u8; 64 << 10] = [0; 64 << 10];

const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Answers with this many bytes.
async fn log(stream: &mut TlsStream<TcpStream>, mut count: u64) -> std::io::Result<()> {
    stream.write_all(CHUNKED).await?;
    while count > 0 {
        let part = count.min(BLOCK.len() as u64);
        stream.write_all(&chunk(part as usize)).await?;
        count -= part;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}

/// Answers with so many bytes a second, until the client goes.
async fn paced(stream: &mut TlsStream<TcpStream>, rate: usize) -> std::io::Result<()> {
    stream.write_all(CHUNKED).await?;
    let part = chunk(rate / 20);
    let mut due = tokio::time::interval(std::time::Duration::from_millis(50));
    loop {
        due.tick().await;
        stream.write_all(&part).await?;
    }
}

/// A chunk of HTTP/1.1 with this many bytes, at most those of a block.
fn chunk(bytes: usize) -> Vec<u8> {
    let mut chunk = format!("{bytes:x}\r\n").into_bytes();
    chunk.extend(&BLOCK[..bytes]);
    chunk.extend(b"\r\n");
    chunk
}

/// Answers 101, sends this many bytes, and then reads as many.
async fn both_ways(
    mut stream: TlsStream<TcpStream>,
    upgrade: &str,
    count: u64,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\
         X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut left = count;
    while left > 0 {
        let part = left.min(BLOCK.len() as u64);
        stream.write_all(&BLOCK[..part as usize]).await?;
        left -= part;
    }
    // A write may leave bytes in the stream, and reading does not send them.
    stream.flush().await?;
    let mut upload = (&mut stream).take(count);
    tokio::io::copy(&mut upload, &mut tokio::io::sink()).await?;
    stream.write_all(b"last").await?;
    stream.shutdown().await
}

/// Answers 101 and sends back what comes, until the client ends.
async fn upgraded(
    mut stream: TlsStream<TcpStream>,
    head: &str,
    upgrade: &str,
) -> std::io::Result<()> {
    let protocol = header(head, "sec-websocket-protocol").unwrap_or_default();
    let chosen = protocol.split(',').next().unwrap_or_default();
    stream
        .write_all(
            format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\
                 X-Stream-Protocol-Version: chosen\r\nSec-WebSocket-Protocol: {chosen}\r\n\r\n"
            )
            .as_bytes(),
        )
        .await?;
    if chosen == "v4.channel.k8s.io" {
        stream.write_all(HELLO).await?;
    }
    let mut buffer = vec![0; 16 << 10];
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
    stream.write_all(b"last").await?;
    stream.shutdown().await
}
