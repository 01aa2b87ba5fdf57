//! Test clients: HTTP/2 with a window that the test controls, and HTTP/1.1 byte by byte.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::poll_fn;
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::TestServer;

/// Connects and does the TLS handshake, offering `protocols`.
pub(super) async fn tls(
    server: &TestServer,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(server.trust_pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// An HTTP/2 client whose connection is driven in the background.
#[derive(Clone)]
pub(super) struct Http2 {
    pub(super) requests: SendRequest<Bytes>,
    pub(super) ended: Arc<parking_lot::Mutex<Option<Result<(), h2::Error>>>>,
}

impl Http2 {
    pub(super) async fn connect(server: &TestServer) -> Http2 {
        Http2::with(
            server,
            Builder::new().initial_connection_window_size(1 << 30),
        )
        .await
    }

    pub(super) async fn with(server: &TestServer, builder: &Builder) -> Http2 {
        let stream = tls(server, &["h2"]).await.unwrap();
        let (requests, connection) = builder.handshake(stream).await.unwrap();
        let ended = Arc::new(parking_lot::Mutex::new(None));
        let end = Arc::clone(&ended);
        actix_rt::spawn(async move {
            let result = connection.await;
            *end.lock() = Some(result);
        });
        Http2 { requests, ended }
    }

    /// Whether the server has closed the connection.
    pub(super) fn is_over(&self) -> bool {
        self.ended.lock().is_some()
    }

    pub(super) async fn send(
        &self,
        request: Request<()>,
        end: bool,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        requests.send_request(request, end)
    }

    pub(super) async fn open(&self, path: &str) -> Result<Response<RecvStream>, h2::Error> {
        self.send(request("GET", path), true).await?.0.await
    }

    pub(super) async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), h2::Error> {
        let mut response = self.open(path).await?;
        let mut body = Vec::new();
        while let Some(data) = next(response.body_mut()).await? {
            body.extend_from_slice(&data);
        }
        Ok((response.status(), Bytes::from(body)))
    }

    /// Posts a body in pieces.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<Response<RecvStream>, h2::Error> {
        let (response, mut stream) = self.send(request("POST", path), false).await?;
        let mut rest = body;
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len().min(64 * 1024));
            match poll_fn(|context| stream.poll_capacity(context)).await {
                Some(Ok(room)) => {
                    let part = rest.split_to(room.min(rest.len()));
                    stream.send_data(part, rest.is_empty())?;
                }
                // The server answered without reading the rest.
                _ => break,
            }
        }
        response.await
    }
}

pub(super) fn request(method: &str, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .body(())
        .unwrap()
}

/// Returns the next piece of a body, and its window to the server.
pub(super) async fn next(body: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    while let Some(data) = body.data().await.transpose()? {
        body.flow_control().release_capacity(data.len())?;
        // The frame that ends a stream is often empty.
        if !data.is_empty() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reads at least `count` bytes of a body, unless it ends first.
pub(super) async fn read(body: &mut RecvStream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend_from_slice(&next(body).await.unwrap().expect("the body ends early"));
    }
    all
}

/// An HTTP/1.1 client that sees every byte.
pub(super) struct Http1(pub(super) TlsStream<TcpStream>);

impl Http1 {
    pub(super) async fn connect(server: &TestServer) -> Http1 {
        Http1(tls(server, &["http/1.1"]).await.unwrap())
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until `end` arrives. Returns an empty string when the connection closes first.
    pub(super) async fn read_until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(end.as_bytes()) {
            match self.0.read(&mut byte).await {
                Ok(1) => text.push(byte[0]),
                _ => return String::new(),
            }
        }
        String::from_utf8(text).unwrap()
    }

    /// Sends a GET and reads the headers of the response.
    pub(super) async fn head_of(&mut self, path: &str) -> String {
        self.write(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
            .await;
        self.read_until("\r\n\r\n").await
    }

    /// Reads until the connection closes.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A server that cuts a connection sends no TLS close.
        let _ = self.0.read_to_end(&mut rest).await;
        rest
    }
}
