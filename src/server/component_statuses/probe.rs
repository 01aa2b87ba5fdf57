//! Asks a server on this machine for its `/healthz`, in the words of kube-apiserver.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 10 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is known of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// `True`, `False` or `Unknown`.
    pub(super) is_healthy: &'static str,
    pub(super) message: String,
    /// Why it could not be asked.
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

    /// A part that says that it does not work, or nothing.
    pub(super) fn failed(message: String) -> Outcome {
        Outcome {
            is_healthy: "False",
            ..Outcome::healthy(message)
        }
    }

    /// What a store answers.
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

/// A server of Kubernetes at a port of this machine.
pub(super) struct HealthzProbe {
    pub(super) port: u16,
}

impl HealthzProbe {
    /// Asks the server. Whoever listens there is believed, as by kube-apiserver. Nobody is asked
    /// to whom an answer redirects.
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

/// An error as Go names it.
fn said_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}

async fn get(stream: TcpStream, address: SocketAddr) -> Result<(StatusCode, Bytes), Failure> {
    let name = ServerName::from(address.ip());
    let connector = TlsConnector::from(Arc::new(believing()?));
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
        // It may have read all of the answer.
        _ = connection => answering.await,
    }
}

/// TLS that believes every certificate.
fn believing() -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believing { algorithms }))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Believing {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
