//! A webhook over TLS, which answers reviews as a test says and remembers them.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// How a webhook answers a review.
pub enum Reply {
    /// With a status code, headers and a body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// With a head, and a body that does not end.
    Endless,
    /// Not at all, while the connection stays open.
    Silence,
    /// By closing the connection.
    Close,
}

impl Reply {
    /// A body with a status code.
    pub fn body(code: u16, body: impl Into<Bytes>) -> Reply {
        Reply::Answer(code, Vec::new(), body.into())
    }
}

type Respond = dyn Fn(&Value) -> Reply + Send + Sync;
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A running webhook. It ends with the runtime of its test.
pub struct Webhook {
    asked: Arc<Mutex<Vec<Value>>>,
    folder: tempfile::TempDir,
    /// Its address.
    pub url: String,
    certificate: String,
}

impl Webhook {
    /// Starts a webhook that answers each review with a status code and a body.
    pub async fn start(
        respond: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
    ) -> Webhook {
        Webhook::replying(move |review| {
            let (code, body) = respond(review);
            Reply::body(code, body)
        })
        .await
    }

    /// Starts a webhook that may also answer badly, or not at all.
    pub async fn replying(respond: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Webhook {
        let (webhook, listener, tls) = Webhook::listening().await;
        let (log, respond): (_, Arc<Respond>) = (Arc::clone(&webhook.asked), Arc::new(respond));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tls, log, respond) = (tls.clone(), Arc::clone(&log), Arc::clone(&respond));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else {
                        return;
                    };
                    let service = service_fn(|request| answered(request, &log, &respond));
                    let server = hyper::server::conn::http1::Builder::new();
                    // The daemon may close the connection at any time.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        webhook
    }

    /// Starts a webhook that sends these bytes for each request, whatever HTTP demands.
    pub async fn raw(answer: String) -> Webhook {
        let (webhook, listener, tls) = Webhook::listening().await;
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tls, answer) = (tls.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = tls.accept(socket).await else {
                        return;
                    };
                    while read_request(&mut stream).await.is_some() {
                        let sent = stream.write_all(answer.as_bytes()).await;
                        if sent.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        webhook
    }

    async fn listening() -> (Webhook, TcpListener, TlsAcceptor) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let tls = acceptor(certificate.der(), &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let port = listener.local_addr().unwrap().port();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let kubeconfig = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}/hook', \
             certificate-authority: ca.pem}}}}]\nusers: [{{name: u, user: {{token: own}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let webhook = Webhook {
            asked: Arc::default(),
            folder,
            url: format!("https://127.0.0.1:{port}/hook"),
            certificate: certificate.pem(),
        };
        (webhook, listener, tls)
    }

    /// A `clientConfig` that names it and trusts its own certificate.
    pub fn client_config(&self) -> Value {
        json!({"url": self.url, "caBundle": BASE64_STANDARD.encode(&self.certificate)})
    }

    /// The path of its kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A flag that names the kubeconfig.
    pub fn flag(&self, name: &str) -> String {
        format!("--{name}={}", self.kubeconfig().display())
    }

    /// The reviews that it has got.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a request with a body. `None` at the end of the connection.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(())
}

/// Returns the TLS side of a server with this certificate and key. It asks for certificates of
/// clients, and accepts any and none.
pub fn acceptor(certificate: &CertificateDer<'static>, key: &KeyPair) -> TlsAcceptor {
    acceptor_with(certificate, key, &[])
}

/// Returns the same for a server that offers these protocols.
pub fn acceptor_with(
    certificate: &CertificateDer<'static>,
    key: &KeyPair,
    protocols: &[&[u8]],
) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients = Arc::new(AnyClient(provider.signature_verification_algorithms));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Accepts certificates of any issuer.
#[derive(Debug)]
struct AnyClient(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

async fn answered(
    request: Request<Incoming>,
    log: &Mutex<Vec<Value>>,
    respond: &Arc<Respond>,
) -> Result<Response<Body>, Closed> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review = serde_json::from_slice(&body).unwrap();
    let reply = respond(&review);
    log.lock().unwrap().push(review);
    match reply {
        Reply::Answer(code, headers, body) => {
            let mut answer = Response::builder().status(code);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            Ok(answer.body(Full::new(body).boxed_unsync()).unwrap())
        }
        Reply::Endless => {
            let spaces = Bytes::from(vec![b' '; 64 << 10]);
            let frames = stream::repeat_with(move || Ok(Frame::data(spaces.clone())));
            Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
        }
        Reply::Silence => std::future::pending().await,
        Reply::Close => Err(Closed),
    }
}

/// The webhook closes the connection.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("closed")
    }
}

impl std::error::Error for Closed {}
