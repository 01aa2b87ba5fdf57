//! The configuration of rustls.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys,
    ServerConfig, SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::by_name::ByName;
use super::{KEY, Loaded, PROXY_CLIENT, PROXY_CLIENT_KEY, Presented, TlsError, faults, suites};
use crate::config::Config;
use crate::x509;

/// HTTP/2 as ALPN names it.
pub(in crate::transport) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The most bytes of the certificates that a client shows. They are kept while its connection
/// lives, and before anybody knows whether they are valid.
const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// Returns the certificate with its key, ready to be presented to clients.
pub(super) fn certified_key(presented: &Presented) -> Result<CertifiedKey, TlsError> {
    let certified = loaded(presented)?;
    match certified.keys_match() {
        // Some keys do not show their public part.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(error) => Err(unfit(presented, &error)),
    }
}

/// Checks that a certificate and its key can be presented to servers. rustls presents those of
/// version 1, too, which Go's servers accept.
pub(super) fn check_client(presented: &Presented) -> Result<(), TlsError> {
    let certified = loaded(presented)?;
    let own = certified.end_entity_cert();
    let own = own.map_err(|error| unfit(presented, &error))?;
    let damaged = |_| unfit(presented, &Error::General(String::new()));
    let (_, parsed) = X509Certificate::from_der(own).map_err(damaged)?;
    let key = certified.key.public_key();
    match key.is_none_or(|key| key.as_ref() == parsed.public_key().raw) {
        true => Ok(()),
        false => Err(unfit(presented, &InconsistentKeys::KeyMismatch.into())),
    }
}

fn unfit(presented: &Presented, error: &Error) -> TlsError {
    let key = match presented.setting {
        Some(PROXY_CLIENT) => PROXY_CLIENT_KEY,
        _ => KEY,
    };
    TlsError::new(&presented.path, faults::of_certificate(error, key))
}

fn loaded(presented: &Presented) -> Result<CertifiedKey, TlsError> {
    let refuse = |error: &dyn std::fmt::Display| TlsError::new(&presented.path, error);
    let chain = CertificateDer::pem_slice_iter(presented.chain_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(&faults::of_pem(&error)))?;
    let refuse_key = |problem: &str| TlsError::new(&presented.key_path, problem);
    let key = PrivateKeyDer::from_pem_slice(presented.key_pem.as_bytes())
        .map_err(|error| refuse_key(faults::of_pem(&error)))?;
    let provider = aws_lc_rs::default_provider();
    // The key alone comes first, so that an error names the file at fault.
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|_| refuse_key(faults::KEY_KINDS))?;
    Ok(CertifiedKey::new(chain, key))
}

/// Builds the configuration for loaded files. It does not accept session tickets of an earlier
/// configuration, so that every client shows its certificate again when authorities change.
pub(super) fn build(config: &Config, loaded: &Loaded) -> Result<Arc<ServerConfig>, TlsError> {
    let path = &loaded.presented.path;
    let provider = suites::provider(config);
    let authorities = [&*loaded.client_authorities, &loaded.proxy_authorities].concat();
    let clients = AnyClient::new(&provider, &authorities);
    let others = loaded.named.iter().map(|(names, presented)| {
        let certificate = certified_key(presented)?;
        Ok((names.clone(), certificate))
    });
    let others = others.collect::<Result<Vec<_>, TlsError>>()?;
    let presented = Arc::new(ByName::new(certified_key(&loaded.presented)?, others));
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(suites::versions(config))
        .map_err(|error| TlsError::new(path, error))?
        .with_client_cert_verifier(Arc::new(clients))
        .with_cert_resolver(presented);
    server.alpn_protocols = match config.disable_http2_serving.0 {
        true => vec![ALPN_HTTP1.to_vec()],
        false => vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()],
    };
    // A returning client brings its session along in a ticket, so the server stores none.
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| TlsError::new(path, error))?;
    server.send_tls13_tickets = 1;
    Ok(Arc::new(server))
}

/// Lets clients connect that show no certificate, or one whose key they have. The authenticator
/// decides whether a certificate is valid: it can answer 401, and knows when the authorities
/// change. Here a certificate only needs to contain a key.
#[derive(Debug)]
struct AnyClient {
    /// The names of the authorities, by which clients choose a certificate.
    names: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    fn new(provider: &CryptoProvider, authorities: &[CertificateDer<'_>]) -> AnyClient {
        let name = |authority: &CertificateDer<'_>| {
            let (_, parsed) = X509Certificate::from_der(authority).ok()?;
            Some(DistinguishedName::from(parsed.subject().as_raw().to_vec()))
        };
        AnyClient {
            names: authorities.iter().filter_map(name).collect(),
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes: usize = between.iter().map(|one| one.len()).sum();
        match own.len() + bytes > SHOWN_BYTES_MAX {
            true => Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
            false => Ok(ClientCertVerified::assertion()),
        }
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
