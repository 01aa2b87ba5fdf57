//! Asking the running daemon, over HTTPS with the admin's kubeconfig.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Report;
use crate::server::auth::AdminAccess;

/// Giving back the space of a large store takes a while.
const PATIENCE: Duration = Duration::from_secs(600);

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreached {
    /// Nothing listens where the kubeconfig points.
    #[error("no daemon answers: {0}")]
    NobodyThere(io::Error),
    /// The connection broke, or is not to be trusted.
    #[error("the daemon at {0} can't be talked to: {1}")]
    Broken(std::net::SocketAddr, String),
    /// It said no.
    #[error("the daemon answered {0}: {1}")]
    Refused(StatusCode, String),
    /// It did not answer.
    #[error("the daemon did not answer within {0:?}; it goes on compacting all the same")]
    TimedOut(Duration),
}

pub(super) async fn compact(access: &AdminAccess) -> Result<Report, Unreached> {
    let stream = TcpStream::connect(access.address)
        .await
        .map_err(Unreached::NobodyThere)?;
    let asking = ask(access, stream);
    let (status, body) = tokio::time::timeout(PATIENCE, asking)
        .await
        .map_err(|_| Unreached::TimedOut(PATIENCE))?
        .map_err(|error| Unreached::Broken(access.address, error.to_string()))?;
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        return Err(Unreached::Refused(status, text));
    }
    serde_json::from_slice(&body)
        .map_err(|error| Unreached::Broken(access.address, error.to_string()))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn ask(access: &AdminAccess, stream: TcpStream) -> Result<(StatusCode, Vec<u8>), Failure> {
    let name = ServerName::from(access.address.ip());
    let stream = TlsConnector::from(tls(&access.trust_pem)?)
        .connect(name, stream)
        .await?;
    let (requests, connection) = h2::client::handshake(stream).await?;
    let answering = async {
        let request = Request::post(format!("https://{}/taffrail/v1/compact", access.address))
            .header("authorization", format!("Bearer {}", access.token.secret()))
            .header("accept", "application/json")
            .body(())?;
        let (response, _) = requests.ready().await?.send_request(request, true)?;
        let response = response.await?;
        let status = response.status();
        let mut stream = response.into_body();
        let mut body = Vec::new();
        while let Some(data) = poll_fn(|context| stream.poll_data(context)).await {
            let data = data?;
            stream.flow_control().release_capacity(data.len())?;
            body.extend_from_slice(&data);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(Failure::from("its answer is too long"));
            }
        }
        Ok((status, body))
    };
    tokio::select! {
        answer = answering => answer,
        ended = connection => match ended {
            Ok(()) => Err(Failure::from("it closed the connection")),
            Err(error) => Err(error.into()),
        },
    }
}

fn tls(trust_pem: &str) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trust_pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
