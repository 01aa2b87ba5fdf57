//! A webhook over TLS for tests, which remembers what it was asked.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::kubeconfigs::Server;
use super::call::Caller;
use crate::egress::EgressClient;

/// A request that a webhook got.
#[derive(Clone, Debug)]
pub(in crate::auth) struct Asked {
    pub(in crate::auth) method: String,
    pub(in crate::auth) uri: String,
    pub(in crate::auth) headers: http::HeaderMap,
    pub(in crate::auth) body: String,
}

/// The reaction of a webhook to the question of this number, from 0.
#[derive(Clone, Debug)]
pub(in crate::auth) enum Reply {
    /// Answers with this status, these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// Never answers.
    Hang,
}

impl Reply {
    /// An answer with the status 200.
    pub(in crate::auth) fn ok(body: impl Into<Bytes>) -> Reply {
        Reply::Answer(200, Vec::new(), body.into())
    }

    /// An answer with another status.
    pub(in crate::auth) fn code(code: u16) -> Reply {
        Reply::Answer(code, Vec::new(), Bytes::new())
    }
}

type Replies = Arc<dyn Fn(usize) -> Reply + Send + Sync>;

/// A running webhook. It ends with the runtime of its test.
pub(in crate::auth) struct Webhook {
    pub(in crate::auth) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The folder of its kubeconfig.
    folder: tempfile::TempDir,
}

impl Webhook {
    /// Starts a webhook that offers these protocols.
    pub(in crate::auth) async fn start(
        protocols: &[&[u8]],
        reply: impl Fn(usize) -> Reply + Send + Sync + 'static,
    ) -> Webhook {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .unwrap();
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, reply): (Arc<Mutex<Vec<Asked>>>, Replies) = (Arc::clone(&asked), Arc::new(reply));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tls, log, reply) = (tls.clone(), Arc::clone(&log), Arc::clone(&reply));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(socket).await else {
                        return;
                    };
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let service = service_fn(move |request| {
                        answered(request, Arc::clone(&log), Arc::clone(&reply))
                    });
                    let stream = TokioIo::new(stream);
                    let _ = match is_http2 {
                        true => {
                            let server =
                                hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                            server.serve_connection(stream, service).await
                        }
                        false => {
                            let server = hyper::server::conn::http1::Builder::new();
                            server.serve_connection(stream, service).await
                        }
                    };
                });
            }
        });
        Webhook {
            port,
            asked,
            folder,
        }
    }

    /// Writes a kubeconfig for it, with the bearer token of this daemon.
    pub(in crate::auth) fn kubeconfig(&self) -> PathBuf {
        let file = self.folder.path().join("kubeconfig");
        let text = format!(
            "clusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:{}/review?dropped=1\n    \
             certificate-authority: ca.pem\nusers:\n- name: u\n  user: {{token: daemon-token}}\n\
             contexts:\n- name: x\n  context: {{cluster: c, user: u}}\ncurrent-context: x\n",
            self.port
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Returns a caller without pauses, and with this time-out.
    pub(in crate::auth) fn caller(&self, timeout: Duration) -> Caller {
        let server = Server::load(&self.kubeconfig()).unwrap();
        Caller::new(Arc::new(EgressClient::new()), server, timeout).at_once()
    }

    /// Returns what it was asked.
    pub(in crate::auth) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

async fn answered(
    request: Request<Incoming>,
    log: Arc<Mutex<Vec<Asked>>>,
    reply: Replies,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let number = {
        let mut log = log.lock();
        log.push(Asked {
            method: head.method.to_string(),
            uri: head.uri.path_and_query().unwrap().to_string(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        });
        log.len() - 1
    };
    match reply(number) {
        Reply::Answer(code, headers, body) => {
            let mut answer = Response::builder().status(code);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            Ok(answer.body(Full::new(body)).unwrap())
        }
        Reply::Hang => std::future::pending().await,
    }
}
