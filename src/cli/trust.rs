//! The certificates of a daemon that commands trust: those that kubectl trusts with the same
//! kubeconfig.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::access::Credential;
use crate::x509::ServerVerifier;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The TLS of a client that trusts these certificates (PEM), over HTTP/2. It presents the
/// certificate of the credential, if there is one.
///
/// # Errors
/// A text is not PEM, or the key is not that of the certificate.
pub(super) fn client_config(
    trust_pem: &str,
    credential: &Credential,
) -> Result<Arc<ClientConfig>, Failure> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = CertificateDer::pem_slice_iter(trust_pem.as_bytes());
    let trusted = ServerVerifier::of_bundle(certificates.collect::<Result<_, _>>()?, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trusted));
    let mut config = match credential {
        Credential::Token(_) => config.with_no_client_auth(),
        Credential::Certificate { chain_pem, key_pem } => {
            let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())?;
            config.with_client_auth_cert(chain.collect::<Result<_, _>>()?, key)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
