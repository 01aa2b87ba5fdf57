//! A small HTTP client that can send anything, with one open connection, over HTTP/1.1 or HTTP/2.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than any answer, because the server's own limits are shorter.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A failure before the answer. The request may or may not have been carried out.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

/// The protocol that ALPN offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// The address of a server and its authority.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    pub token: Option<String>,
    roots: Option<Arc<rustls::RootCertStore>>,
    /// The window of a client that does not read.
    window: Option<u32>,
    /// A client certificate and its key, in PEM.
    certificate: Option<Arc<(String, String)>>,
    /// The address of this machine that the client uses.
    from: Option<IpAddr>,
    is_tls12: bool,
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// One client: a connection made when needed and kept.
pub struct Client {
    target: Target,
    protocol: Protocol,
    sender: Mutex<Option<Sender>>,
}

/// A running watch, or any streamed answer of lines.
pub struct Lines {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    buffer: BytesMut,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Target {
    /// A server with a certificate of the authority in `pem`. Without `pem` any certificate is
    /// accepted.
    pub fn new(address: SocketAddr, token: Option<String>, pem: Option<&[u8]>) -> Target {
        let roots = pem.map(|pem| {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.unwrap()).unwrap();
            }
            Arc::new(roots)
        });
        Target {
            address,
            token,
            roots,
            window: None,
            certificate: None,
            from: None,
            is_tls12: false,
        }
    }

    /// The same server, over TLS 1.2.
    pub fn over_tls12(&self) -> Target {
        Target {
            is_tls12: true,
            ..self.clone()
        }
    }

    /// The same server, asked from this address of the machine.
    pub fn from(&self, address: IpAddr) -> Target {
        Target {
            from: Some(address),
            ..self.clone()
        }
    }

    /// The same server, with a client certificate and its key instead of a token.
    pub fn with_certificate(&self, certificate: &str, key: &str) -> Target {
        Target {
            token: None,
            certificate: Some(Arc::new((certificate.to_owned(), key.to_owned()))),
            ..self.clone()
        }
    }

    /// The same server with a window of this many bytes for answers.
    pub fn narrow(&self, window: u32) -> Target {
        Target {
            window: Some(window),
            ..self.clone()
        }
    }

    /// The same server without a token.
    pub fn anonymous(&self) -> Target {
        Target {
            token: None,
            ..self.clone()
        }
    }

    /// The same server with another token.
    pub fn with_token(&self, token: &str) -> Target {
        Target {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    /// A client over HTTP/2.
    pub fn client(&self) -> Client {
        self.client_over(Protocol::Http2)
    }

    /// A client over a protocol of choice.
    pub fn client_over(&self, protocol: Protocol) -> Client {
        Client {
            target: self.clone(),
            protocol,
            sender: Mutex::new(None),
        }
    }

    /// A bare TLS connection.
    pub async fn tls(&self, alpn: &[&[u8]]) -> Result<TlsStream<TcpStream>, Broken> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = match self.is_tls12 {
            true => &[&rustls::version::TLS12][..],
            false => rustls::DEFAULT_VERSIONS,
        };
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?;
        let builder = match &self.roots {
            Some(roots) => builder.with_root_certificates(roots.clone()),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider.clone()))),
        };
        let mut config = match self.certificate.as_deref() {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                let key = provider.key_provider.load_private_key(key)?;
                // Whatever the certificate is, and whether the key fits it.
                let shown = CertifiedKey::new(chain.map(Result::unwrap).collect(), key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let socket = TcpSocket::new_v4()?;
        if let Some(window) = self.window {
            socket.set_recv_buffer_size(window)?;
        }
        if let Some(from) = self.from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        Ok(TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?)
    }
}

impl Call {
    pub fn new(method: &str, path: &str) -> Call {
        Call {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    pub fn get(path: &str) -> Call {
        Call::new("GET", path)
    }

    pub fn delete(path: &str) -> Call {
        Call::new("DELETE", path)
    }

    /// A request with a JSON body.
    pub fn json(method: &str, path: &str, body: &Value) -> Call {
        Call::new(method, path).body("application/json", body.to_string())
    }

    pub fn post(path: &str, body: &Value) -> Call {
        Call::json("POST", path, body)
    }

    pub fn put(path: &str, body: &Value) -> Call {
        Call::json("PUT", path, body)
    }

    pub fn merge_patch(path: &str, body: &Value) -> Call {
        Call::new("PATCH", path).body("application/merge-patch+json", body.to_string())
    }

    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Call {
        let mut call = self.header("content-type", content_type);
        call.body = body.into();
        call
    }

    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn request(&self, target: &Target, protocol: Protocol) -> Result<Request<Full<Bytes>>, Broken> {
        let mut request = Request::builder().method(self.method.clone());
        match protocol {
            Protocol::Http1 => {
                request = request
                    .uri(&self.path)
                    .header("host", target.address.to_string());
            }
            Protocol::Http2 => {
                request = request.uri(format!("https://{}{}", target.address, self.path));
            }
        }
        if let Some(token) = &target.token
            && !self
                .headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in self.headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, value.as_bytes());
        }
        Ok(request.body(Full::new(self.body.clone()))?)
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        if self.body.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// The Status of a refusal, which must have this code and reason.
    #[track_caller]
    pub fn refusal(self, code: u16, reason: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["apiVersion"], "v1", "{status}");
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["code"], code, "{status}");
        assert_eq!(status["reason"].as_str().unwrap_or(""), reason, "{status}");
        status
    }
}

impl Client {
    /// Sends a request and reads the whole answer. Panics when there is none.
    pub async fn call(&self, call: Call) -> Answer {
        let what = format!(
            "{} {}",
            call.method,
            call.path.chars().take(200).collect::<String>()
        );
        self.attempt(call)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends a request and reads the whole answer.
    pub async fn attempt(&self, call: Call) -> Result<Answer, Broken> {
        tokio::time::timeout(TIMEOUT, async {
            let (head, body) = self.send(call).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body,
            })
        })
        .await?
    }

    /// Sends a request and reads the answer line by line.
    pub async fn lines(&self, call: Call) -> Result<Lines, Broken> {
        // Over HTTP/1.1 a stream needs a connection for itself.
        let (head, body) = match self.protocol {
            Protocol::Http1 => {
                let alone = self.target.client_over(Protocol::Http1);
                tokio::time::timeout(TIMEOUT, alone.send(call)).await??
            }
            Protocol::Http2 => tokio::time::timeout(TIMEOUT, self.send(call)).await??,
        }
        .into_parts();
        Ok(Lines {
            status: head.status,
            headers: head.headers,
            body,
            buffer: BytesMut::new(),
        })
    }

    /// A watch that must begin.
    pub async fn watch(&self, path: &str) -> Lines {
        let lines = self.lines(Call::get(path)).await.unwrap();
        assert_eq!(lines.status, StatusCode::OK, "GET {path}");
        lines
    }

    async fn send(&self, call: Call) -> Result<http::Response<Incoming>, Broken> {
        let request = call.request(&self.target, self.protocol)?;
        let mut kept = self.sender.lock().await;
        let usable = match kept.as_mut() {
            Some(sender) => sender.usable().await,
            None => false,
        };
        if !usable {
            *kept = Some(self.connect().await?);
        }
        match kept.as_mut() {
            // Requests over HTTP/1.1 come one after the other.
            Some(Sender::Http1(sender)) => Ok(sender.send_request(request).await?),
            Some(Sender::Http2(sender)) => {
                let mut sender = sender.clone();
                drop(kept);
                Ok(sender.send_request(request).await?)
            }
            None => unreachable!("connected above"),
        }
    }

    async fn connect(&self) -> Result<Sender, Broken> {
        Ok(match self.protocol {
            Protocol::Http1 => {
                let io = TokioIo::new(self.target.tls(&[b"http/1.1"]).await?);
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let io = TokioIo::new(self.target.tls(&[b"h2"]).await?);
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(self.target.window);
                let (sender, connection) = builder.handshake(io).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        })
    }
}

impl Sender {
    async fn usable(&mut self) -> bool {
        match self {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }
}

impl Lines {
    /// The next line that isn't empty; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1).freeze();
                if line.len() > 1 {
                    return Ok(Some(line.slice(..end)));
                }
                continue;
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The next frame of a stream in protobuf, without its length; `None` at the end of the stream.
    pub async fn frame(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*length) as usize;
                if self.buffer.len() >= end {
                    return Ok(Some(self.buffer.split_to(end).freeze().slice(4..)));
                }
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Waits for more of the body. False at its end.
    async fn fill(&mut self) -> Result<bool, Broken> {
        let Some(piece) = self.piece().await? else {
            return Ok(false);
        };
        self.buffer.extend_from_slice(&piece);
        Ok(true)
    }

    /// The next bytes of the body as they come, without those that other methods have read ahead;
    /// `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(frame) = self.body.frame().await else {
            return Ok(None);
        };
        Ok(Some(frame?.into_data().unwrap_or_default()))
    }

    /// The rest of the stream.
    pub async fn whole(mut self) -> Result<Bytes, Broken> {
        while self.fill().await? {}
        Ok(self.buffer.freeze())
    }

    /// The next event, which must arrive within `limit`. `None` at the end of the stream.
    pub async fn event_within(&mut self, limit: Duration) -> Option<Value> {
        let line = tokio::time::timeout(limit, self.next())
            .await
            .unwrap_or_else(|_| panic!("no event within {limit:?}"))
            .unwrap_or_else(|error| panic!("the stream broke: {error}"))?;
        Some(serde_json::from_slice(&line).unwrap())
    }

    /// The next event, which must arrive soon.
    pub async fn event(&mut self) -> Value {
        self.event_within(Duration::from_secs(20))
            .await
            .expect("the stream ended")
    }

    /// Everything up to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.event_within(TIMEOUT).await {
            events.push(event);
        }
        events
    }
}

/// For servers whose authority isn't known.
#[derive(Debug)]
pub struct AnyCertificate(pub Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
