//! TLS: the certificates, created on the first start and kept, and the configuration of rustls.
//!
//! This folder owns the certificate files in the data directory. The settings enter, and a rustls
//! configuration and the certificates to trust leave. It must not know connections, HTTP or users.
//!
//! Run this only while the data directory is locked. Otherwise two daemons could create two
//! authorities.

mod authority;
mod certificate;
mod names;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use metrics::Counter;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Config;
use crate::files::{PrivateDirectory, given, own};
use authority::Authority;

/// HTTP/2 as ALPN names it.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The settings that name files.
const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-private-key-file";

/// The folder of the certificates within the data directory.
const FOLDER: &str = "pki";

/// The certificates cannot be read or created.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {problem}", flag(*.setting), .path.display())]
pub struct TlsError {
    /// The setting that names the file, unless the daemon chose it.
    pub setting: Option<&'static str>,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what the operator can do.
    pub problem: String,
}

impl TlsError {
    fn new(path: &Path, problem: impl ToString) -> TlsError {
        TlsError {
            setting: None,
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }

    fn of(setting: &'static str) -> impl FnOnce(TlsError) -> TlsError {
        move |error| TlsError {
            setting: Some(setting),
            ..error
        }
    }
}

fn flag(setting: Option<&str>) -> String {
    setting.map_or_else(String::new, |setting| format!("--{setting}="))
}

/// The certificates that the secure port presents, and those that its clients trust.
pub struct Tls {
    server: Arc<ServerConfig>,
    trust_pem: String,
}

impl Tls {
    /// Reads the configured certificates. It creates certificates that are missing, expire soon or
    /// lack a required name. The authority is created only once, so that kubeconfigs stay valid.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn load_or_create(config: &Config) -> Result<Tls, TlsError> {
        if config.tls_cert_file.is_set() {
            let certificate = config.tls_cert_file.as_path();
            let chain_pem = read(certificate).map_err(TlsError::of(CERTIFICATE))?;
            let key_path = config.tls_private_key_file.as_path();
            let key_pem = read(key_path).map_err(TlsError::of(KEY))?;
            let server = server_config((certificate, &chain_pem), (key_path, &key_pem));
            let server = server.map_err(|error| {
                let setting = if error.path == key_path {
                    KEY
                } else {
                    CERTIFICATE
                };
                TlsError::of(setting)(error)
            })?;
            return Ok(Tls {
                server,
                trust_pem: chain_pem,
            });
        }
        let folder = config.data_dir.as_path().join(FOLDER);
        PrivateDirectory::within(&folder).map_err(|error| TlsError::new(&folder, error))?;
        let authority = Authority::load_or_create(&folder)?;
        let names = names::of(config);
        let leaf = certificate::load_or_create(&folder, &authority, &names)?;
        let server = server_config(
            (&leaf.path, &leaf.certificate_pem),
            (&leaf.key_path, &leaf.key_pem),
        )?;
        Ok(Tls {
            server,
            trust_pem: authority.certificate_pem().to_owned(),
        })
    }

    /// The configuration for serving.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// The certificates that clients must trust, in PEM, for kubeconfigs.
    pub fn trust_pem(&self) -> &str {
        &self.trust_pem
    }
}

fn read(path: &Path) -> Result<String, TlsError> {
    let file = given::read(path, given::PEM_BYTES_MAX);
    let text = file.and_then(|file| Ok(file.text()?.to_owned()));
    text.map_err(|error| TlsError::new(path, error))
}

/// The content of a file in the data directory, or `None` when there is none.
fn kept(path: &Path) -> Result<Option<String>, TlsError> {
    // An obstacle to replacing the file is reported now instead of in a year.
    let unfinished = own::unfinished(path);
    own::inspect(&unfinished).map_err(|error| TlsError::new(&unfinished, error))?;
    own::read_text(path, given::PEM_BYTES_MAX).map_err(|error| TlsError::new(path, error))
}

fn server_config(
    (certificate_path, chain_pem): (&Path, &str),
    (key_path, key_pem): (&Path, &str),
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::new(certificate_path, error))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .map_err(|error| TlsError::new(key_path, error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| TlsError::new(certificate_path, error))?;
    server.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    // A returning client brings its session along in a ticket, so the server stores none.
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.ticketer =
        aws_lc_rs::Ticketer::new().map_err(|error| TlsError::new(certificate_path, error))?;
    server.send_tls13_tickets = 1;
    Ok(Arc::new(server))
}

/// Counts failed handshakes, under the name that Kubernetes uses.
pub(super) fn handshake_errors() -> Counter {
    metrics::describe_counter!(
        "apiserver_tls_handshake_errors_total",
        "TLS handshakes that failed or took too long."
    );
    metrics::counter!("apiserver_tls_handshake_errors_total")
}
