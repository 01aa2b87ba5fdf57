//! Verifies that the client of a handshake has the key of its certificate. Nothing else in the
//! certificate matters here.

use std::ops::RangeInclusive;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{SubjectPublicKeyInfoDer, alg_id};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use super::parts::{Parts, PublicKey};

/// The sizes of RSA keys whose signatures are verified, in bits.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// Whether signatures of this key can be verified. The handshake accepts other keys unproven, so
/// that their clients get a response; [`super::verify`] refuses each of them.
pub(super) fn is_provable(key: &PublicKey) -> bool {
    if *key.algorithm == *alg_id::RSA_ENCRYPTION {
        return key.modulus().is_some_and(|modulus| {
            let zeros = modulus.first().map_or(0, |first| first.leading_zeros());
            let bits = (modulus.len() * 8).checked_sub(usize::try_from(zeros).unwrap_or(0));
            bits.is_some_and(|bits| RSA_BITS.contains(&bits))
        });
    }
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let mut all = algorithms.mapping.iter().flat_map(|(_, all)| *all);
    all.any(|one| *one.public_key_alg_id() == *key.algorithm)
}

/// Verifies the signature of a client in a TLS 1.2 handshake.
///
/// # Errors
/// The client does not have the key of its certificate.
pub fn verify_tls12(
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, key) = key(certificate)?;
    if !is_provable(&key) {
        return Ok(HandshakeSignatureValid::assertion());
    }
    let is_of_tls13 = matches!(
        signed.scheme,
        SignatureScheme::ML_DSA_44 | SignatureScheme::ML_DSA_65 | SignatureScheme::ML_DSA_87
    );
    let mut offered = algorithms.mapping.iter().filter(|_| !is_of_tls13);
    let Some((_, fitting)) = offered.find(|(scheme, _)| *scheme == signed.scheme) else {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    };
    let is_signed = fitting.iter().any(|one| {
        *one.public_key_alg_id() == *key.algorithm
            && one
                .verify_signature(&key.key, message, signed.signature())
                .is_ok()
    });
    match is_signed {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// Verifies the signature of a client in a TLS 1.3 handshake.
///
/// # Errors
/// The client does not have the key of its certificate.
pub fn verify_tls13(
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let (info, key) = key(certificate)?;
    match is_provable(&key) {
        true => verify_tls13_signature_with_raw_key(message, &info, signed, algorithms),
        false => Ok(HandshakeSignatureValid::assertion()),
    }
}

fn key(certificate: &[u8]) -> Result<(SubjectPublicKeyInfoDer<'_>, PublicKey), Error> {
    let parts = Parts::of(certificate);
    let read = parts.and_then(|parts| Some((parts.key.into(), PublicKey::of(parts.key)?)));
    read.ok_or_else(|| CertificateError::BadEncoding.into())
}
