//! Asks a server on this machine for its `/healthz`, with the messages of kube-apiserver.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::x509::ServerVerifier;

/// The most bytes that are read of a response.
const ANSWER_BYTES_MAX: usize = 10 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The health of a component.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// `True`, `False` or `Unknown`.
    pub(super) is_healthy: &'static str,
    pub(super) message: String,
    /// The reason why it could not be asked.
    pub(super) error: String,
}

impl Outcome {
    fn healthy(message: impl Into<String>) -> Outcome {
        Outcome {
            is_healthy: "True",
            message: message.into(),
            error: String::new(),
        }
    }

    /// A component that reports a failure or does not answer.
    pub(super) fn failed(message: String) -> Outcome {
        Outcome {
            is_healthy: "False",
            ..Outcome::healthy(message)
        }
    }

    /// Translates the answer of a store.
    pub(super) fn of_store(answer: Result<(), String>) -> Outcome {
        match answer {
            Ok(()) => Outcome::healthy("ok"),
            Err(why) => Outcome {
                error: why.clone(),
                ..Outcome::failed(why)
            },
        }
    }

    fn of_answer(status: StatusCode, body: &str) -> Outcome {
        match status.as_u16() {
            200..300 => Outcome::healthy(body),
            300..400 => Outcome {
                is_healthy: "Unknown",
                message: format!("Probe terminated redirects, Response body: {body}"),
                error: String::new(),
            },
            code => Outcome::failed(format!("HTTP probe failed with statuscode: {code}")),
        }
    }
}

/// A Kubernetes server at a port of this machine.
pub(super) struct HealthzProbe {
    pub(super) port: u16,
}

impl HealthzProbe {
    /// Asks the server. As in kube-apiserver, any certificate is accepted, and redirects are not
    /// followed.
    pub(super) async fn ask(&self) -> Outcome {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let answer = match TcpStream::connect(address).await {
            Ok(stream) => get(stream, address).await.map_err(|why| why.to_string()),
            Err(why) => {
                let why = said_of(&why);
                Err(format!("dial tcp {address}: connect: {why}"))
            }
        };
        match answer {
            Ok((status, body)) => Outcome::of_answer(status, &String::from_utf8_lossy(&body)),
            Err(why) => Outcome::failed(format!("Get \"https://{address}/healthz\": {why}")),
        }
    }
}

/// Describes an error as Go does.
fn said_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}

async fn get(stream: TcpStream, address: SocketAddr) -> Result<(StatusCode, Bytes), Failure> {
    let name = ServerName::from(address.ip());
    let connector = TlsConnector::from(Arc::new(unverified()?));
    let stream = connector.connect(name, stream).await?;
    let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/healthz")
        .header(HOST, address.to_string())
        .header(ACCEPT, "*/*")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let answering = async {
        let answer = requests.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        Ok((status, body.collect().await?.to_bytes()))
    };
    tokio::pin!(answering);
    tokio::select! {
        answer = &mut answering => answer,
        // The connection may have ended after it read the whole response.
        _ = connection => answering.await,
    }
}

/// Returns a TLS configuration that accepts every certificate, as kube-apiserver does here.
fn unverified() -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = ServerVerifier::of_anyone(&provider);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}
