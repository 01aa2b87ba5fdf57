//! Describes problems with files of certificates and keys for the operator.

use rustls::Error;
use rustls::pki_types::pem::Error as PemError;

/// The kinds of keys that are accepted.
pub(super) const KEY_KINDS: &str =
    "its key can't be used; it must be RSA of 2048 to 8192 bits, ECDSA P-256 to P-521 or Ed25519";

/// Translates the errors of reading a PEM file.
pub(super) fn of_pem(error: &PemError) -> &'static str {
    match error {
        PemError::NoItemsFound => "it holds no private key (PEM)",
        PemError::MissingSectionEnd { .. } => {
            "it is cut short: a section (PEM) lacks its END line; copy the file again"
        }
        _ => "it is damaged: a section (PEM) can't be read; copy the file again",
    }
}

/// Translates the errors of loading a certificate.
/// `key` is the setting of its key.
pub(super) fn of_certificate(error: &Error, key: &str) -> String {
    match error {
        Error::NoCertificatesPresented => "it holds no certificate (PEM)".to_owned(),
        Error::InconsistentKeys(_) => {
            format!("the key of {key} does not fit its first certificate; replace both files")
        }
        _ => {
            "its first certificate can't be used: it is damaged, or not X.509 version 3".to_owned()
        }
    }
}
