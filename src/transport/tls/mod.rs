//! TLS: the certificates, created on the first start and kept, and the configuration of rustls.
//!
//! This folder manages the certificate files in the data directory. From the settings it makes a
//! rustls configuration, the certificates that clients must trust, and certificates for clients. It
//! does not know connections, HTTP or permissions.
//!
//! Run this only while the data directory is locked. Otherwise two daemons could create two
//! authorities.

mod authority;
mod by_name;
mod certificate;
mod client_authority;
pub mod client_signer;
mod faults;
mod metrics;
mod names;
mod pem;
mod proxy_client;
mod server_config;
mod suites;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use crate::clock;
use crate::config::Config;
use crate::files::{PrivateDirectory, given, own};
use authority::{Authority, SERVING};
pub(super) use metrics::handshake_errors;
pub use proxy_client::{ProxyClient, ProxyIdentity};
pub(super) use server_config::ALPN_HTTP2;

/// The settings that name files.
const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-private-key-file";
const FOLDER_OF_BOTH: &str = "cert-dir";
const NAMED: &str = "tls-sni-cert-key";
const CLIENT_AUTHORITY: &str = "client-ca-file";
const PROXY_AUTHORITY: &str = "requestheader-client-ca-file";
const PROXY_CLIENT: &str = "proxy-client-cert-file";
const PROXY_CLIENT_KEY: &str = "proxy-client-key-file";

/// The folder of the certificates within the data directory.
const FOLDER: &str = "pki";

/// The certificates cannot be read or created.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {problem}", flag(*.setting), .path.display())]
pub struct TlsError {
    /// The setting that names the file, unless the daemon chose it.
    pub setting: Option<&'static str>,
    /// The file.
    pub path: PathBuf,
    /// The problem with it, and what the operator can do.
    pub problem: String,
}

impl TlsError {
    fn new(path: &Path, problem: impl ToString) -> TlsError {
        TlsError {
            setting: None,
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }

    fn of(setting: &'static str) -> impl FnOnce(TlsError) -> TlsError {
        move |error| TlsError {
            setting: Some(setting),
            ..error
        }
    }
}

fn flag(setting: Option<&str>) -> String {
    setting.map_or_else(String::new, |setting| format!("--{setting}="))
}

/// The certificate that the secure port presents, and the authorities that the daemon and its
/// clients trust. All of them may change while the daemon runs.
pub struct Tls {
    config: Config,
    authority: Authority,
    server: Arc<ArcSwap<ServerConfig>>,
    loaded: Mutex<Loaded>,
}

/// The content of the files when they were last read.
#[derive(Clone, PartialEq, Eq)]
struct Loaded {
    presented: Presented,
    /// The certificates for clients that ask for certain names.
    named: Vec<(Vec<String>, Presented)>,
    /// The authorities of client certificates: the daemon's own, and those of `client-ca-file`.
    client_authorities: Vec<CertificateDer<'static>>,
    /// The authorities of front proxies.
    proxy_authorities: Vec<CertificateDer<'static>>,
}

impl Loaded {
    /// Whether one of these authorities of front proxies is not among those that follow.
    fn has_lost_proxies(&self, next: &Loaded) -> bool {
        let known = &next.proxy_authorities;
        // linear: a few authorities, when their files are read.
        self.proxy_authorities
            .iter()
            .any(|one| !known.contains(one))
    }
}

/// A certificate chain with its key, in PEM, and the files they come from.
#[derive(Clone, PartialEq, Eq)]
struct Presented {
    path: PathBuf,
    chain_pem: String,
    key_path: PathBuf,
    key_pem: String,
    /// The setting that names the file, unless the daemon made it.
    setting: Option<&'static str>,
}

/// The changes that a reload made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsReload {
    /// Whether the certificate of the secure port changed.
    pub certificate: bool,
    /// Whether the trusted authorities of client certificates changed.
    pub client_authorities: bool,
    /// Whether the authorities of front proxies changed.
    pub proxy_authorities: bool,
    /// Whether an authority of front proxies was removed.
    pub has_lost_proxies: bool,
}

impl Tls {
    /// Reads the configured certificates. It creates certificates that are missing, expire soon or
    /// lack a required name. The authority is created only once, so that kubeconfigs stay valid.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn load_or_create(config: &Config) -> Result<Tls, TlsError> {
        let folder = config.data_dir.as_path().join(FOLDER);
        PrivateDirectory::within(&folder).map_err(|error| TlsError::new(&folder, error))?;
        let authority = Authority::load_or_create(&folder, &SERVING)?;
        let loaded = load(config, &authority)?;
        let server = server_config::build(config, &loaded)?;
        let tls = Tls {
            config: config.clone(),
            authority,
            server: Arc::new(ArcSwap::new(server)),
            loaded: Mutex::new(loaded),
        };
        tls.measure();
        Ok(tls)
    }

    /// Checks the files that the settings name, and no other files.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn check(config: &Config) -> Result<(), TlsError> {
        if config.tls_cert_file.is_set() {
            given_certificate(config)?;
        }
        named_certificates(config)?;
        ProxyClient::check(config)?;
        client_authority::read(config).map(|_| ())
    }

    /// Reads the files again, and renews the daemon's own certificate if that is due. Open
    /// connections keep their certificates; new ones use those just read. If a file is unusable,
    /// nothing changes.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn reload(&self) -> Result<TlsReload, TlsError> {
        let mut before = self.loaded.lock();
        let loaded = load(&self.config, &self.authority)?;
        let reload = TlsReload {
            certificate: loaded.presented != before.presented || loaded.named != before.named,
            client_authorities: loaded.client_authorities != before.client_authorities,
            proxy_authorities: loaded.proxy_authorities != before.proxy_authorities,
            has_lost_proxies: before.has_lost_proxies(&loaded),
        };
        if reload.certificate {
            refuse_ended(&loaded.presented)?;
            loaded
                .named
                .iter()
                .try_for_each(|(_, one)| refuse_ended(one))?;
        }
        if loaded != *before {
            self.server
                .store(server_config::build(&self.config, &loaded)?);
            *before = loaded;
            drop(before);
            self.measure();
        }
        Ok(reload)
    }

    /// The configuration for the next handshake.
    pub fn server_config(&self) -> Arc<ArcSwap<ServerConfig>> {
        Arc::clone(&self.server)
    }

    /// Returns the certificates that clients must trust, in PEM, for kubeconfigs.
    pub fn trust_pem(&self) -> String {
        let presented = &self.loaded.lock().presented;
        match presented.setting {
            Some(_) => presented.chain_pem.clone(),
            None => self.authority.certificate_pem().to_owned(),
        }
    }

    /// Returns the trusted authorities of client certificates.
    pub fn client_authorities(&self) -> Vec<CertificateDer<'static>> {
        self.loaded.lock().client_authorities.clone()
    }

    /// Returns the trusted authorities of front proxies.
    pub fn proxy_authorities(&self) -> Vec<CertificateDer<'static>> {
        self.loaded.lock().proxy_authorities.clone()
    }

    /// Returns the authorities of client certificates in PEM.
    pub fn client_authorities_pem(&self) -> String {
        pem_of(&self.loaded.lock().client_authorities)
    }

    /// Returns the authorities of front proxies in PEM.
    pub fn proxy_authorities_pem(&self) -> String {
        pem_of(&self.loaded.lock().proxy_authorities)
    }

    /// Returns the files that an operator may change while the daemon runs.
    pub fn followed(&self) -> Vec<PathBuf> {
        let given = [
            &self.config.tls_cert_file,
            &self.config.tls_private_key_file,
            &self.config.client_ca_file,
            &self.config.requestheader_client_ca_file,
        ];
        let named = self.config.tls_sni_cert_key.0.iter();
        let named = named.flat_map(|one| [&one.certificate, &one.key]);
        let given = given.into_iter().chain(named).filter(|file| file.is_set());
        let given = given.map(|file| file.as_path().to_owned());
        let presented = &self.loaded.lock().presented;
        let in_folder = [&presented.path, &presented.key_path];
        let in_folder = in_folder
            .into_iter()
            .filter(|_| presented.setting == Some(FOLDER_OF_BOTH));
        given.chain(in_folder.cloned()).collect()
    }

    fn measure(&self) {
        let loaded = self.loaded.lock();
        metrics::end("serving", &loaded.presented.chain_pem);
        metrics::end("authority", self.authority.certificate_pem());
    }
}

fn load(config: &Config, authority: &Authority) -> Result<Loaded, TlsError> {
    let presented = match config.tls_cert_file.is_set() {
        true => given_certificate(config)?,
        false => own_certificate(config, authority)?,
    };
    let own = pem::der(Path::new(FOLDER), authority.certificate_pem())?;
    let (given, proxy_authorities) = client_authority::read(config)?;
    let client_authorities = [vec![own], given].concat();
    client_authority::check_overlap(config, &client_authorities, &proxy_authorities)?;
    Ok(Loaded {
        presented,
        named: named_certificates(config)?,
        client_authorities,
        proxy_authorities,
    })
}

fn pem_of(certificates: &[CertificateDer<'static>]) -> String {
    let certificates = certificates.iter();
    certificates.map(|one| client_signer::pem(one)).collect()
}

/// Returns the certificate in `cert-dir`, or in the data directory. It is made there if there is
/// none, and renewed if the daemon has made it.
fn own_certificate(config: &Config, authority: &Authority) -> Result<Presented, TlsError> {
    let folder = match config.cert_dir.is_set() {
        true => config.cert_dir.as_path().to_owned(),
        false => config.data_dir.as_path().join(FOLDER),
    };
    if config.cert_dir.is_set()
        && let Some(foreign) = foreign_certificate(&folder, authority)?
    {
        return Ok(foreign);
    }
    let leaf = certificate::load_or_create(&folder, authority, &names::of(config))?;
    Ok(Presented {
        path: leaf.path,
        chain_pem: leaf.certificate_pem,
        key_path: leaf.key_path,
        key_pem: leaf.key_pem,
        setting: None,
    })
}

/// Returns the certificate that somebody else has put into `cert-dir`, if there is one.
fn foreign_certificate(
    folder: &Path,
    authority: &Authority,
) -> Result<Option<Presented>, TlsError> {
    let (path, key_path) = certificate::paths(folder);
    let of_folder = |error| TlsError::of(FOLDER_OF_BOTH)(error);
    match [&path, &key_path].map(|path| path.exists()) {
        [true, true] => {}
        [false, false] => {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| of_folder(TlsError::new(folder, error)))?;
            return Ok(None);
        }
        _ => {
            let problem = "it has only one of apiserver.crt and apiserver.key; add the other one, \
                           or remove both for new ones";
            return Err(of_folder(TlsError::new(folder, problem)));
        }
    }
    let certificate = read(&path).map_err(of_folder)?;
    if certificate::is_signed_by(&path, &certificate, authority) {
        return Ok(None);
    }
    pair((FOLDER_OF_BOTH, &path), (FOLDER_OF_BOTH, &key_path)).map(Some)
}

/// Reads the certificate of `tls-cert-file` and its key.
fn given_certificate(config: &Config) -> Result<Presented, TlsError> {
    pair(
        (CERTIFICATE, config.tls_cert_file.as_path()),
        (KEY, config.tls_private_key_file.as_path()),
    )
}

/// Reads the certificates for certain names. Names that are given win over those that are read
/// from certificates.
fn named_certificates(config: &Config) -> Result<Vec<(Vec<String>, Presented)>, TlsError> {
    let all = config.tls_sni_cert_key.0.iter().map(|one| {
        let presented = pair(
            (NAMED, one.certificate.as_path()),
            (NAMED, one.key.as_path()),
        )?;
        let names = match one.names.is_empty() {
            true => certificate::names(&presented.path, &presented.chain_pem)?,
            false => one.names.clone(),
        };
        Ok((!one.names.is_empty(), names, presented))
    });
    let all = all.collect::<Result<Vec<_>, TlsError>>()?;
    let (given, read): (Vec<_>, Vec<_>) = all.into_iter().partition(|(is_given, ..)| *is_given);
    let in_order = given.into_iter().chain(read);
    Ok(in_order
        .map(|(_, names, presented)| (names, presented))
        .collect())
}

/// Reads a certificate and its key, each from a file that a setting names.
fn pair(
    certificate: (&'static str, &Path),
    key: (&'static str, &Path),
) -> Result<Presented, TlsError> {
    let presented = unchecked_pair(certificate, key)?;
    // Only building the TLS key shows whether certificate and key are usable together.
    let checked = server_config::certified_key(&presented).map(drop);
    checked.map_err(of_either(certificate, key))?;
    Ok(presented)
}

/// Returns the function that names the setting at fault.
fn of_either(
    certificate: (&'static str, &Path),
    key: (&'static str, &Path),
) -> impl FnOnce(TlsError) -> TlsError {
    let is_key = move |error: &TlsError| error.path == key.1;
    move |error| {
        let setting = if is_key(&error) { key.0 } else { certificate.0 };
        TlsError::of(setting)(error)
    }
}

/// Reads a certificate and its key.
fn unchecked_pair(
    certificate: (&'static str, &Path),
    key: (&'static str, &Path),
) -> Result<Presented, TlsError> {
    Ok(Presented {
        path: certificate.1.to_owned(),
        chain_pem: read(certificate.1).map_err(TlsError::of(certificate.0))?,
        key_path: key.1.to_owned(),
        key_pem: read(key.1).map_err(TlsError::of(key.0))?,
        setting: Some(certificate.0),
    })
}

/// Refuses an expired certificate on a reload, so that it does not replace the one in use. At the
/// start an expired certificate is served, because the clock may be wrong and there is no other.
fn refuse_ended(presented: &Presented) -> Result<(), TlsError> {
    let end = metrics::end_of(&presented.chain_pem);
    match (
        end.filter(|end| *end < clock::of_machine().as_second()),
        presented.setting,
    ) {
        (Some(end), Some(setting)) => {
            let end = jiff::Timestamp::from_second(end).unwrap_or_default();
            let problem = format!("its first certificate expired at {end}; renew it");
            let error = TlsError::new(&presented.path, problem);
            Err(TlsError::of(setting)(error))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<String, TlsError> {
    let file = given::read(path, given::PEM_BYTES_MAX);
    let text = file.and_then(|file| Ok(file.text()?.to_owned()));
    text.map_err(|error| TlsError::new(path, error))
}

/// Returns the content of a file in the data directory, or `None` if it does not exist.
fn kept(path: &Path) -> Result<Option<String>, TlsError> {
    // An obstacle to replacing the file is reported now instead of in a year.
    let unfinished = own::unfinished(path);
    own::inspect(&unfinished).map_err(|error| TlsError::new(&unfinished, error))?;
    own::read_text(path, given::PEM_BYTES_MAX).map_err(|error| TlsError::new(path, error))
}
