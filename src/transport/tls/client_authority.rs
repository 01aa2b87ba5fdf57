//! The authorities of `--client-ca-file`.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{CLIENT_AUTHORITY, TlsError, faults};
use crate::config::Config;
use crate::files::given;
use crate::x509::Certificate;

/// Reads the certificates of the file. Returns none if the setting is unset.
///
/// # Errors
/// [`TlsError`] if the file cannot be read, others can write to it, it holds no certificate, or one
/// of its certificates is damaged.
pub(super) fn read(config: &Config) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    if !config.client_ca_file.is_set() {
        return Ok(Vec::new());
    }
    let path = config.client_ca_file.as_path();
    let read = || {
        let refuse = |error: &dyn std::fmt::Display| TlsError::new(path, error);
        let file = given::read(path, given::PEM_BYTES_MAX).map_err(|error| refuse(&error))?;
        // A user who can write the file decides who the users are.
        file.check_writers().map_err(|error| refuse(&error))?;
        let certificates = CertificateDer::pem_slice_iter(&file.bytes);
        let certificates = certificates
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| refuse(&faults::of_pem(&error)))?;
        if certificates.is_empty() {
            return Err(refuse(&"it holds no certificate (PEM)"));
        }
        for (number, certificate) in certificates.iter().enumerate() {
            Certificate::read(certificate).map_err(|_| {
                refuse(&format!(
                    "its certificate {} can't be used: it is damaged",
                    number + 1
                ))
            })?;
        }
        Ok(certificates)
    };
    read().map_err(TlsError::of(CLIENT_AUTHORITY))
}
