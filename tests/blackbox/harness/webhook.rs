//! A webhook over TLS, which answers reviews as a test says and remembers them.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Respond = dyn Fn(&Value) -> (u16, String) + Send + Sync;

/// A running webhook. It ends with the runtime of its test.
pub struct Webhook {
    asked: Arc<Mutex<Vec<Value>>>,
    folder: tempfile::TempDir,
    port: u16,
    certificate: String,
}

impl Webhook {
    /// Starts a webhook that answers each review with a status code and a body.
    pub async fn start(
        respond: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
    ) -> Webhook {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
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
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, respond): (_, Arc<Respond>) = (Arc::clone(&asked), Arc::new(respond));
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
        Webhook {
            asked,
            folder,
            port,
            certificate: certificate.pem(),
        }
    }

    /// A `clientConfig` that names it and trusts its own certificate.
    pub fn client_config(&self) -> Value {
        let url = format!("https://127.0.0.1:{}/hook", self.port);
        json!({"url": url, "caBundle": BASE64_STANDARD.encode(&self.certificate)})
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

async fn answered(
    request: Request<Incoming>,
    log: &Mutex<Vec<Value>>,
    respond: &Arc<Respond>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review = serde_json::from_slice(&body).unwrap();
    let (code, text) = respond(&review);
    log.lock().unwrap().push(review);
    let answer = Response::builder().status(code);
    Ok(answer.body(Full::new(text.into())).unwrap())
}
