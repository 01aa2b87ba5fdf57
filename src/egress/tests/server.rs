//! A server of HTTP, with or without TLS, that remembers what it was asked.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request as the server has seen it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The number of the connection, from 0.
    pub(crate) connection: usize,
    /// Whether the client has shown a certificate.
    pub(crate) is_identified: bool,
}

type Log = Arc<Mutex<Vec<Seen>>>;
type Reply = Arc<dyn Fn(&Uri) -> Response<Full<Bytes>> + Send + Sync>;

/// A running server. It ends with the runtime of its test.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    pub(crate) seen: Log,
}

/// A certificate with its key.
pub(crate) struct Certified {
    pub(crate) pem: String,
    der: Vec<u8>,
    key: Vec<u8>,
    pub(crate) key_pem: String,
}

impl Certified {
    pub(crate) fn own(parameters: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        Certified::new(&parameters.self_signed(&key).unwrap(), &key)
    }

    pub(crate) fn new(certificate: &rcgen::Certificate, key: &KeyPair) -> Certified {
        Certified {
            pem: certificate.pem(),
            der: certificate.der().to_vec(),
            key: key.serialize_der(),
            key_pem: key.serialize_pem(),
        }
    }

    /// TLS that offers these protocols, and asks for a certificate without insisting on one.
    pub(crate) fn tls(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.der.clone().into()).unwrap();
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
        let key = PrivateKeyDer::try_from(self.key.clone()).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![self.der.clone().into()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        Arc::new(config)
    }
}

impl TestServer {
    /// Starts a server.
    pub(crate) async fn start(
        tls: Option<Arc<ServerConfig>>,
        reply: impl Fn(&Uri) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> TestServer {
        TestServer::start_with_limit(tls, 200, reply).await
    }

    /// Starts a server that takes so many requests at a time on a connection of HTTP/2.
    pub(crate) async fn start_with_limit(
        tls: Option<Arc<ServerConfig>>,
        limit: u32,
        reply: impl Fn(&Uri) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Log::default();
        let (log, reply): (Log, Reply) = (Arc::clone(&seen), Arc::new(reply));
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                let (log, reply, tls) = (Arc::clone(&log), Arc::clone(&reply), tls.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else {
                        return serve(socket, None, connection, false, log, reply).await;
                    };
                    let Ok(stream) = TlsAcceptor::from(tls).accept(socket).await else {
                        return;
                    };
                    let session = stream.get_ref().1;
                    let is_http2 = session.alpn_protocol() == Some(b"h2");
                    let is_identified = session.peer_certificates().is_some();
                    let http2 = is_http2.then_some(limit);
                    serve(stream, http2, connection, is_identified, log, reply).await;
                });
            }
        });
        TestServer { port, seen }
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    http2: Option<u32>,
    connection: usize,
    is_identified: bool,
    log: Log,
    reply: Reply,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (log, reply) = (Arc::clone(&log), Arc::clone(&reply));
        async move {
            let (head, body) = request.into_parts();
            let answer = reply(&head.uri);
            let body = body.collect().await.unwrap().to_bytes();
            log.lock().push(Seen {
                method: head.method,
                uri: head.uri,
                headers: head.headers,
                body,
                connection,
                is_identified,
            });
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(stream);
    let _ = match http2 {
        Some(limit) => {
            let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server.max_concurrent_streams(limit);
            server.serve_connection(stream, service).await
        }
        None => {
            let server = hyper::server::conn::http1::Builder::new();
            server.serve_connection(stream, service).await
        }
    };
}

/// An answer with a body.
pub(crate) fn answer(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(body.into()))
}

/// A redirect.
pub(crate) fn redirect(status: u16, location: &str) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(status);
    let builder = builder.header(http::header::LOCATION, location);
    builder.body(Full::default()).unwrap()
}
