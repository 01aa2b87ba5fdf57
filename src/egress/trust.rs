//! The TLS of connections to servers, which are trusted as Go trusts them.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, OtherError,
    SignatureScheme,
};

use super::error::Failure;
use super::system_roots;
use super::target::{HttpPolicy, Identity, Roots, Target, TargetSettings};
use crate::x509::{self, Certificate};

/// The most further certificates of a server that are looked at.
const CHAIN_MAX: usize = 16;

/// HTTP/2 as ALPN names it.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

impl Target {
    /// Checks that the certificates and the key can be used. Otherwise the first request finds out.
    ///
    /// # Errors
    /// [`Failure::Roots`] or [`Failure::Identity`].
    pub fn check(&self) -> Result<(), Failure> {
        match self.is_tls {
            true => config(self.settings()).map(drop),
            false => Ok(()),
        }
    }
}

/// Makes the TLS settings of a target.
pub(super) fn config(settings: &TargetSettings) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier {
        bundle: bundle(&settings.roots)?,
        algorithms: provider.signature_verification_algorithms,
    };
    let refuse = |error: Error| Failure::Identity(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refuse)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, own) = parts(identity)?;
            let key = builder.crypto_provider().key_provider;
            let key = key.load_private_key(own).map_err(refuse)?;
            // Certificates of version 1 are presented, too, which Go's servers accept.
            let certified = CertifiedKey::new(chain, key);
            if let Err(mismatch @ Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) =
                certified.keys_match()
            {
                return Err(refuse(mismatch));
            }
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = match settings.http {
        HttpPolicy::Http1 => Vec::new(),
        HttpPolicy::Http1AndHttp2 => vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()],
    };
    Ok(config)
}

type Parts = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parts(identity: &Identity) -> Result<Parts, Failure> {
    let refuse = |what: &str| Failure::Identity(format!("failed to find any PEM data in {what}"));
    let chain = certificates(&identity.certificate);
    if chain.is_empty() {
        return Err(refuse("certificate input"));
    }
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| refuse("key input"))?;
    Ok((chain, key))
}

/// The certificates of a PEM file. Others of its sections are skipped, as Go does.
fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .collect()
}

/// `None` trusts everybody.
fn bundle(roots: &Roots) -> Result<Option<Vec<Certificate>>, Failure> {
    let read = |pem: &[u8]| -> Vec<Certificate> {
        let all = certificates(pem);
        let read = all.iter().filter_map(|der| Certificate::read(der).ok());
        read.collect()
    };
    match roots {
        Roots::Anyone => Ok(None),
        Roots::System => Ok(Some(read(&system_roots::read()))),
        Roots::Bundle(pem) => match read(pem) {
            bundle if bundle.is_empty() => Err(Failure::Roots),
            bundle => Ok(Some(bundle)),
        },
    }
}

/// Verifies the certificate of a server against a bundle.
struct Verifier {
    bundle: Option<Vec<Certificate>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(bundle) = &self.bundle else {
            return Ok(ServerCertVerified::assertion());
        };
        let unreadable = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let own = Certificate::read(end_entity).map_err(unreadable)?;
        let between = intermediates.iter().take(CHAIN_MAX);
        let between: Result<Vec<_>, _> = between.map(|one| Certificate::read(one)).collect();
        let between = between.map_err(unreadable)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let host = server_name.to_str();
        x509::verify_server((&own, &between), bundle, self.algorithms.all, now, &host).map_err(
            |why| Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why)))),
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        x509::verify_tls12(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        x509::verify_tls13(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Says in Go's words why a handshake has failed.
pub(super) fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(why)) => {
            format!("tls: failed to verify certificate: {}", why.0)
        }
        Error::InvalidCertificate(CertificateError::BadEncoding) => {
            "tls: failed to parse certificate from server: x509: malformed certificate".to_owned()
        }
        Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Error::AlertReceived(rustls::AlertDescription::UnknownCA) => {
            "remote error: tls: unknown certificate authority".to_owned()
        }
        Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", words(&format!("{alert:?}")))
        }
        error => format!("tls: {error}"),
    }
}

/// `HandshakeFailure` as `handshake failure`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_texts_of_go_hk_37() {
        for (alert, expected) in [
            (
                rustls::AlertDescription::HandshakeFailure,
                "handshake failure",
            ),
            (
                rustls::AlertDescription::CertificateRequired,
                "certificate required",
            ),
            (
                rustls::AlertDescription::UnknownCA,
                "unknown certificate authority",
            ),
        ] {
            let expected = format!("remote error: tls: {expected}");
            assert_eq!(text(&Error::AlertReceived(alert)), expected);
        }
    }
}
