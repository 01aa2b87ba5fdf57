//! Certificates in PEM.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::TlsError;

/// Returns the first certificate of a PEM file.
pub(super) fn der(path: &Path, pem: &str) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| TlsError::new(path, error))
}
