//! The authorities of `--client-ca-file` and `--requestheader-client-ca-file`.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{CLIENT_AUTHORITY, PROXY_AUTHORITY, TlsError, faults};
use crate::config::{Config, FilePath};
use crate::files::given;
use crate::x509::Certificate;

/// The certificates of a file.
type Certificates = Vec<CertificateDer<'static>>;

/// Reads the authorities of clients, and those of front proxies. An unset setting has an empty
/// list.
///
/// # Errors
/// [`TlsError`] if a file cannot be read, others can write to it, it holds no certificate, one of
/// its certificates is damaged, or a client of one could be taken for a front proxy.
pub(super) fn read(config: &Config) -> Result<(Certificates, Certificates), TlsError> {
    let clients = read_file(CLIENT_AUTHORITY, &config.client_ca_file)?;
    let proxies = read_file(PROXY_AUTHORITY, &config.requestheader_client_ca_file)?;
    check_overlap(config, &clients, &proxies)?;
    Ok((clients, proxies))
}

/// Refuses an authority that signs certificates of both clients and front proxies, unless proxies
/// have names (AC-10).
///
/// # Errors
/// There is such an authority.
pub(super) fn check_overlap(
    config: &Config,
    clients: &[CertificateDer<'static>],
    proxies: &[CertificateDer<'static>],
) -> Result<(), TlsError> {
    // linear: a few authorities, when their files are read.
    let overlaps = proxies.iter().any(|one| clients.contains(one));
    if !overlaps || !config.requestheader_allowed_names.0.is_empty() {
        return Ok(());
    }
    let problem = "--requestheader-client-ca-file and --client-ca-file contain overlapping \
                   certificates; --requestheader-allowed-names must be specified to ensure regular \
                   client certificates cannot set authenticating proxy headers for arbitrary users";
    let path = config.requestheader_client_ca_file.as_path();
    Err(TlsError::of(PROXY_AUTHORITY)(TlsError::new(path, problem)))
}

fn read_file(setting: &'static str, file: &FilePath) -> Result<Certificates, TlsError> {
    if !file.is_set() {
        return Ok(Vec::new());
    }
    let path = file.as_path();
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
    read().map_err(TlsError::of(setting))
}
