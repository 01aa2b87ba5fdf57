//! Checks the certificates of servers that this process connects to.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::VerifierBuilderError;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Decides whether a server may be trusted. In both cases the server must prove that it has the key
/// of its certificate.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Trust {
    Anyone,
    Bundle {
        certificates: Vec<CertificateDer<'static>>,
        /// `None` if no certificate of the bundle is an authority.
        authorities: Option<Arc<WebPkiServerVerifier>>,
    },
}

impl ServerVerifier {
    /// Trusts every server. For requests that send no secret and whose answer is not relied on.
    pub(crate) fn of_anyone(provider: &CryptoProvider) -> ServerVerifier {
        ServerVerifier {
            trust: Trust::Anyone,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Trusts certificates that the authorities of a bundle have signed, and each certificate of
    /// the bundle itself. kubectl does the second, too: a certificate that `openssl req -x509`
    /// makes is its own authority, and rustls does not accept an authority as a server's
    /// certificate.
    ///
    /// # Errors
    /// The authorities cannot be used.
    pub(crate) fn of_bundle(
        certificates: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ServerVerifier, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let authorities = if roots.is_empty() {
            None
        } else {
            let provider = Arc::clone(provider);
            let roots = Arc::new(roots);
            Some(WebPkiServerVerifier::builder_with_provider(roots, provider).build()?)
        };
        Ok(ServerVerifier {
            trust: Trust::Bundle {
                certificates,
                authorities,
            },
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Bundle {
            certificates,
            authorities,
        } = &self.trust
        else {
            return Ok(ServerCertVerified::assertion());
        };
        // linear: a bundle has a few certificates.
        if certificates.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authorities = authorities.as_ref().ok_or(unknown)?;
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
