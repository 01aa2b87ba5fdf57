//! The certificate by which the daemon is the front proxy of aggregated servers (CN-18).
//!
//! It is that of `--proxy-client-cert-file`, or the daemon makes one. The authority that signs it
//! signs no other certificate, so extensions can trust everything from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use zeroize::Zeroizing;

use super::authority::{Authority, AuthorityFiles};
use super::certificate::{self, LeafFiles};
use super::{
    FOLDER, PROXY_CLIENT, PROXY_CLIENT_KEY, TlsError, metrics, of_either, server_config,
    unchecked_pair,
};
use crate::clock;
use crate::config::Config;
use crate::files::{PrivateDirectory, own};

/// The files of the authority.
const AUTHORITY: AuthorityFiles = AuthorityFiles {
    certificate: "front-proxy-ca.crt",
    key: "front-proxy-ca.key",
    name: "taffrail-front-proxy-ca",
};

/// The files of the certificate.
const CLIENT: LeafFiles = LeafFiles {
    certificate: "front-proxy-client.crt",
    key: "front-proxy-client.key",
};

/// The common name of the certificate. It is the usual one, so that a kube-apiserver on the same
/// store that limits front proxies to names leaves this one in.
const NAME: &str = "front-proxy-client";

/// An authority that ends within this time is replaced. Extensions learn the new one from the
/// ConfigMap.
const REPLACED_BEFORE_END_SECONDS: i64 = 365 * 86_400;

/// The certificate with its key, in PEM.
#[derive(PartialEq, Eq)]
pub struct ProxyIdentity {
    /// The certificate, then those of its authorities.
    pub chain_pem: String,
    /// The private key.
    pub key_pem: Zeroizing<String>,
    /// The authority, if the daemon has made it.
    pub authority_pem: Option<String>,
}

/// The certificate, which may change while the daemon runs.
pub struct ProxyClient {
    config: Config,
    current: ArcSwapOption<ProxyIdentity>,
}

impl ProxyClient {
    /// Reads the configured certificate, or makes one. If other front proxies are configured but no
    /// certificate, the daemon has none, as kube-apiserver does.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn load_or_create(config: &Config) -> Result<ProxyClient, TlsError> {
        let identity = load(config)?;
        if identity.is_none() {
            tracing::warn!(
                "--requestheader-client-ca-file is set without --proxy-client-cert-file: aggregated \
                 API servers that ask for a certificate will refuse this server"
            );
        }
        measure(identity.as_ref());
        Ok(ProxyClient {
            config: config.clone(),
            current: ArcSwapOption::from(identity.map(Arc::new)),
        })
    }

    /// Checks the files that the settings name.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub(super) fn check(config: &Config) -> Result<(), TlsError> {
        match config.proxy_client_cert_file.is_set() {
            true => given(config).map(drop),
            false => Ok(()),
        }
    }

    /// Returns the certificate of now.
    pub fn identity(&self) -> Option<Arc<ProxyIdentity>> {
        self.current.load_full()
    }

    /// Returns the files that an operator may change while the daemon runs.
    pub fn followed(&self) -> Vec<PathBuf> {
        let files = [
            &self.config.proxy_client_cert_file,
            &self.config.proxy_client_key_file,
        ];
        let files = files.into_iter().filter(|file| file.is_set());
        files.map(|file| file.as_path().to_owned()).collect()
    }

    /// Reads the files again, and renews what the daemon has made if that is due. Returns whether
    /// the certificate changed.
    ///
    /// # Errors
    /// [`TlsError`] names the file. The certificate stays as it was.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let identity = load(&self.config)?;
        if self.current.load().as_deref() == identity.as_ref() {
            return Ok(false);
        }
        measure(identity.as_ref());
        self.current.store(identity.map(Arc::new));
        Ok(true)
    }
}

fn measure(identity: Option<&ProxyIdentity>) {
    if let Some(identity) = identity {
        metrics::end("front-proxy-client", &identity.chain_pem);
    }
}

fn load(config: &Config) -> Result<Option<ProxyIdentity>, TlsError> {
    if config.proxy_client_cert_file.is_set() {
        return given(config).map(Some);
    }
    match config.requestheader_client_ca_file.is_set() {
        true => Ok(None),
        false => made(&config.data_dir.as_path().join(FOLDER)).map(Some),
    }
}

fn given(config: &Config) -> Result<ProxyIdentity, TlsError> {
    let certificate = (PROXY_CLIENT, config.proxy_client_cert_file.as_path());
    let key = (PROXY_CLIENT_KEY, config.proxy_client_key_file.as_path());
    let presented = unchecked_pair(certificate, key)?;
    let checked = server_config::check_client(&presented);
    checked.map_err(of_either(certificate, key))?;
    Ok(ProxyIdentity {
        chain_pem: presented.chain_pem,
        key_pem: Zeroizing::new(presented.key_pem),
        authority_pem: None,
    })
}

fn made(folder: &Path) -> Result<ProxyIdentity, TlsError> {
    PrivateDirectory::within(folder).map_err(|error| TlsError::new(folder, error))?;
    remove_old_authority(folder)?;
    let authority = Authority::load_or_create(folder, &AUTHORITY)?;
    let leaf = certificate::load_or_create_client(folder, &CLIENT, &authority, NAME)?;
    Ok(ProxyIdentity {
        chain_pem: leaf.certificate_pem,
        key_pem: Zeroizing::new(leaf.key_pem),
        authority_pem: Some(authority.certificate_pem().to_owned()),
    })
}

/// Removes the certificate of an authority that ends soon, so that another one is made.
fn remove_old_authority(folder: &Path) -> Result<(), TlsError> {
    let path = folder.join(AUTHORITY.certificate);
    let end = super::kept(&path)?.and_then(|pem| metrics::end_of(&pem));
    let soon = clock::of_machine().as_second() + REPLACED_BEFORE_END_SECONDS;
    if end.is_some_and(|end| end < soon) {
        tracing::info!("making a new authority of the front proxy: it ends within a year");
        own::remove(&path).map_err(|error| TlsError::new(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::super::pem::der;
    use super::*;
    use crate::config::FilePath;

    fn config(folder: &Path) -> Config {
        Config {
            data_dir: FilePath::from(folder),
            ..Config::default()
        }
    }

    #[test]
    fn a_certificate_is_made_once_by_an_authority_of_its_own_cn_18() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let first = ProxyClient::load_or_create(&config).unwrap();
        assert!(!first.reload().unwrap());
        let second = ProxyClient::load_or_create(&config).unwrap();
        let (first, second) = (first.identity().unwrap(), second.identity().unwrap());
        assert!(first == second);
        let [leaf, authority] = [
            first.chain_pem.as_str(),
            first.authority_pem.as_deref().unwrap(),
        ]
        .map(|pem| der(Path::new("x"), pem).unwrap());
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        let (_, authority) = X509Certificate::from_der(&authority).unwrap();
        assert_eq!(leaf.issuer(), authority.subject());
        let subject = leaf.subject().to_string();
        assert_eq!(subject, format!("CN={NAME}"));
        let usage = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.client_auth && !usage.server_auth);
        for name in [
            AUTHORITY.certificate,
            AUTHORITY.key,
            CLIENT.certificate,
            CLIENT.key,
        ] {
            let path = folder.path().join(FOLDER).join(name);
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn an_authority_that_ends_soon_is_replaced_with_its_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let client = ProxyClient::load_or_create(&config).unwrap();
        let before = client.identity().unwrap();
        let path = folder.path().join(FOLDER).join(AUTHORITY.certificate);
        let key = std::fs::read_to_string(path.with_file_name(AUTHORITY.key)).unwrap();
        let key = rcgen::KeyPair::from_pem(&key).unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let old = parameters.self_signed(&key).unwrap().pem();
        own::write(&path, old.as_bytes()).unwrap();
        assert!(client.reload().unwrap());
        let after = client.identity().unwrap();
        assert!(after.authority_pem != before.authority_pem);
        assert!(after.authority_pem.as_deref() != Some(old.as_str()));
        assert!(after.chain_pem != before.chain_pem);
    }

    #[test]
    fn a_given_certificate_is_used_and_read_again_cn_18() {
        let folder = tempfile::tempdir().unwrap();
        let own = config(folder.path());
        let made = ProxyClient::load_or_create(&own)
            .unwrap()
            .identity()
            .unwrap();
        let (certificate, key) = (folder.path().join("c"), folder.path().join("k"));
        own::write(&certificate, made.chain_pem.as_bytes()).unwrap();
        own::write(&key, made.key_pem.as_bytes()).unwrap();
        let given = Config {
            proxy_client_cert_file: FilePath::from(certificate.as_path()),
            proxy_client_key_file: FilePath::from(key.as_path()),
            requestheader_client_ca_file: FilePath::from(certificate.as_path()),
            ..config(folder.path())
        };
        let client = ProxyClient::load_or_create(&given).unwrap();
        let identity = client.identity().unwrap();
        assert!(identity.authority_pem.is_none() && identity.chain_pem == made.chain_pem);
        assert_eq!(client.followed(), [certificate, key.clone()]);
        own::write(&key, b"nonsense").unwrap();
        let refusal = client.reload().unwrap_err().to_string();
        assert!(refusal.starts_with("--proxy-client-key-file="), "{refusal}");
        assert!(client.identity().unwrap() == identity);
        // With other front proxies the daemon makes no certificate.
        let none = Config {
            requestheader_client_ca_file: given.requestheader_client_ca_file,
            ..own
        };
        assert!(
            ProxyClient::load_or_create(&none)
                .unwrap()
                .identity()
                .is_none()
        );
    }
}
