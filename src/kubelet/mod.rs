//! The ways to kubelets, pods and services: how they are trusted, and how this server proves who
//! it is (CN-38).
//!
//! This folder makes the target of a request to a kubelet from the settings of the daemon and the
//! files that they name, which are read again when they change. It must not know nodes, pods or
//! what a kubelet is asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, FilePath};
use crate::egress::{
    EgressClient, HttpPolicy, Identity, Peers, Roots, Target, TargetSettings, authority,
};
use crate::files::{Followed, Source, Stamp, given};

/// A setting about kubelets that cannot be used, in one line for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeletSettingsError(String);

/// Makes requests to kubelets.
pub struct Kubelets {
    egress: Arc<EgressClient>,
    /// The client for servers that users choose. Its pools displace no others.
    others: EgressClient,
    files: Arc<Followed<Files>>,
    connect_timeout: Duration,
}

impl Kubelets {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// [`KubeletSettingsError`]
    pub fn load(
        config: &Config,
        egress: Arc<EgressClient>,
    ) -> Result<Kubelets, KubeletSettingsError> {
        Ok(Kubelets {
            egress,
            others: EgressClient::new(),
            files: Arc::new(Followed::new(Files::of(config)).map_err(KubeletSettingsError)?),
            connect_timeout: config.kubelet_timeout.0,
        })
    }

    /// Checks the settings and their files.
    ///
    /// # Errors
    /// [`KubeletSettingsError`]
    pub fn check(config: &Config) -> Result<(), KubeletSettingsError> {
        let made = Files::of(config).make();
        made.map(drop).map_err(KubeletSettingsError)
    }

    /// The client for requests to the targets.
    pub fn egress(&self) -> &EgressClient {
        &self.egress
    }

    /// The client for requests to [`unverified`] servers.
    pub fn others(&self) -> &EgressClient {
        &self.others
    }

    /// Returns the kubelet at this host and port.
    ///
    /// # Errors
    /// The host of the node is not one.
    pub async fn target(
        &self,
        host: &str,
        port: u16,
        skips_verification: bool,
    ) -> Result<Target, String> {
        let mut settings = self.settings(host, port).await;
        if skips_verification {
            settings.roots = Roots::Anyone;
        }
        target(host, settings)
    }

    /// Returns the kubelet at this host and port, for requests of clients to any of its paths
    /// (CN-76).
    ///
    /// # Errors
    /// The host of the node is not one.
    pub async fn proxied(&self, host: &str, port: u16) -> Result<Target, String> {
        let mut settings = self.settings(host, port).await;
        settings.peers = Peers::Others;
        target(host, settings)
    }

    async fn settings(&self, host: &str, port: u16) -> TargetSettings {
        let read = self.files.newest().await;
        let url = format!("https://{}", authority(host, port));
        let mut settings = TargetSettings::new(url, read.roots.clone());
        settings.identity = read.identity.clone();
        settings.http = HttpPolicy::Http1AndHttp2;
        settings.connect_timeout = Some(self.connect_timeout);
        settings
    }
}

/// Returns another server, about which nothing is verified: that of a pod or a service, or one on
/// the machine of a node (CN-71, CN-76).
///
/// # Errors
/// The host is not one.
pub fn unverified(is_tls: bool, host: &str, port: u16) -> Result<Target, String> {
    let scheme = if is_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", authority(host, port));
    let mut settings = TargetSettings::new(url, Roots::Anyone);
    settings.http = HttpPolicy::Http1AndHttp2;
    settings.peers = Peers::Others;
    target(host, settings)
}

fn target(host: &str, settings: TargetSettings) -> Result<Target, String> {
    let unusable = |why| format!("the address {host:?} can't be used: {why}");
    Target::new(settings).map_err(unusable)
}

/// The contents of the files.
struct Read {
    roots: Roots,
    identity: Option<Identity>,
}

/// The files that the settings name.
struct Files {
    authority: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Files {
    fn of(config: &Config) -> Files {
        let path = |file: &FilePath| file.is_set().then(|| file.as_path().to_owned());
        let certificate = path(&config.kubelet_client_certificate);
        Files {
            authority: path(&config.kubelet_certificate_authority),
            // The configuration has both or neither.
            identity: certificate.zip(path(&config.kubelet_client_key)),
        }
    }
}

fn read(flag: &str, file: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
    let read = given::read(file, given::PEM_BYTES_MAX);
    let read = read.map_err(|error| format!("--{flag} {}: {error}", file.display()))?;
    Ok(read.bytes)
}

impl Source for Files {
    type Made = Read;

    fn what(&self) -> String {
        "the files of --kubelet-client-certificate, --kubelet-client-key and \
         --kubelet-certificate-authority"
            .to_owned()
    }

    fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        let pair = self.identity.iter().flat_map(|(one, other)| [one, other]);
        let all = self.authority.iter().chain(pair);
        all.map(|path| (path.clone(), Stamp::of(path))).collect()
    }

    fn make(&self) -> Result<Read, String> {
        let roots = match &self.authority {
            Some(file) => Roots::Bundle(read("kubelet-certificate-authority", file)?.to_vec()),
            // As in kube-apiserver, kubelets are not checked by default.
            None => Roots::Anyone,
        };
        let identity = match &self.identity {
            Some((certificate, key)) => Some(Identity {
                certificate: read("kubelet-client-certificate", certificate)?.to_vec(),
                key: read("kubelet-client-key", key)?,
            }),
            None => None,
        };
        let checked = |roots: Roots, identity: Option<Identity>| {
            let mut settings = TargetSettings::new("https://kubelet", roots);
            settings.identity = identity;
            let target = Target::new(settings).map_err(|why| why.to_string())?;
            target.check().map_err(|why| why.to_string())
        };
        if let Some(file) = &self.authority {
            let faulty = |why| format!("--kubelet-certificate-authority {}: {why}", file.display());
            checked(roots.clone(), None).map_err(faulty)?;
        }
        if let Some((certificate, key)) = &self.identity {
            checked(Roots::Anyone, identity.clone()).map_err(|why| {
                format!(
                    "--kubelet-client-certificate {} with --kubelet-client-key {}: {why}",
                    certificate.display(),
                    key.display()
                )
            })?;
        }
        Ok(Read { roots, identity })
    }
}
