//! Which certificates of a daemon its commands trust: those that kubectl trusts with the same
//! kubeconfig.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::access::Credential;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The TLS of a client that trusts these certificates (PEM), over HTTP/2. It shows the certificate
/// of the credential, if that is one.
///
/// # Errors
/// A text is not PEM, or the key is not that of the certificate.
pub(super) fn client_config(
    trust_pem: &str,
    credential: &Credential,
) -> Result<Arc<ClientConfig>, Failure> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = CertificateDer::pem_slice_iter(trust_pem.as_bytes());
    let trusted = Trusted::new(certificates.collect::<Result<_, _>>()?, &provider)?;
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

/// Trusts what the authorities among these certificates have signed, and each of the certificates
/// itself. The second is what kubectl does, too: a certificate that `openssl req -x509` makes is
/// its own authority, and as such may not be a server's for rustls.
#[derive(Debug)]
struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    /// `None` without any authority.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trusted {
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Trusted, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let authorities = match roots.is_empty() {
            true => None,
            false => {
                let provider = Arc::clone(provider);
                let roots = Arc::new(roots);
                Some(WebPkiServerVerifier::builder_with_provider(roots, provider).build()?)
            }
        };
        Ok(Trusted {
            certificates,
            authorities,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The server must still prove that it has the key.
        if self.certificates.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authorities = self.authorities.as_ref().ok_or(unknown)?;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
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
