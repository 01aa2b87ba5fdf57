//! The options of an etcd engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actors::watchdog::Watchdog;

use super::tls::ClientTls;
use crate::files::given;

/// Files of the connections' TLS (SF-4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities (PEM) that vouch for the servers.
    pub authority: Option<PathBuf>,
    /// The client's certificate (PEM) and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How to reach an etcd cluster, and what this daemon does for it.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of the members: `http://host:port` or `https://host:port`.
    pub servers: Vec<String>,
    /// TLS of the `https` ones.
    pub tls: Option<Arc<ClientTls>>,
    /// The prefix of this daemon's keys: `/registry/`. Probes read below it, so an etcd user who
    /// may read nothing else is enough.
    pub root: String,
    /// The time between two compactions. Zero leaves them to others (OP-10).
    pub compaction_interval: Duration,
    /// The time between two measurements of the database (SF-12). Zero is never.
    pub size_every: Duration,
    /// How long a probe for `/healthz` may take (OP-20).
    pub health_timeout: Duration,
    /// How long a probe for `/readyz` may take.
    pub ready_timeout: Duration,
    /// Watches the thread that talks to etcd. Default: nobody does.
    pub watchdog: Watchdog,
}

impl EtcdOptions {
    /// The defaults for these members.
    pub fn new(servers: Vec<String>) -> EtcdOptions {
        EtcdOptions {
            servers,
            tls: None,
            root: "/registry/".to_owned(),
            compaction_interval: Duration::from_secs(300),
            size_every: Duration::from_secs(30),
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            watchdog: Watchdog::default(),
        }
    }
}

/// Why an engine cannot be created: one line for the operator. Servers that do not answer are no
/// reason, because they may come later.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No server was named.
    #[error("--etcd-servers names no server of etcd")]
    NoServers,
    /// Not a URL of a server.
    #[error("{url:?} is not a URL of an etcd server such as http://127.0.0.1:2379: {reason}")]
    BadUrl {
        /// The given text.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file can't be read.
    #[error("--etcd-{flag}={}: {reason}", .path.display())]
    File {
        /// The flag's name after `--etcd-`.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// HTTPS needs trusted authorities.
    #[error("{0} needs --etcd-cafile, the authority that signed its certificate")]
    NoAuthority(String),
    /// The engine's thread could not be started.
    #[error("no thread for etcd: {0}; raise the limit of processes of the daemon's user")]
    Thread(#[from] std::io::Error),
}

impl TlsFiles {
    /// Every file that cannot be read.
    pub fn unreadable(&self) -> Vec<ConnectError> {
        let identity = self.identity.iter();
        let identity = identity
            .flat_map(|(certificate, key)| [("certfile", certificate.as_path()), ("keyfile", key)]);
        let authority = self.authority.iter();
        authority
            .map(|authority| ("cafile", authority.as_path()))
            .chain(identity)
            .filter_map(|(flag, path)| read(flag, path).err())
            .collect()
    }

    /// Their content.
    pub(super) fn read(&self, url: &str) -> Result<Pem, ConnectError> {
        let Some(authority) = &self.authority else {
            return Err(ConnectError::NoAuthority(url.to_owned()));
        };
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| {
            Ok::<_, ConnectError>((read("certfile", certificate)?, read("keyfile", key)?))
        });
        Ok(Pem {
            authority: read("cafile", authority)?,
            identity: identity.transpose()?,
        })
    }

    /// All of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        let identity = self.identity.iter();
        let identity = identity.flat_map(|(certificate, key)| [certificate, key]);
        self.authority.iter().chain(identity).cloned().collect()
    }

    /// The file of this flag can be read and not be used.
    pub(super) fn useless(&self, flag: &'static str) -> ConnectError {
        let identity = self.identity.as_ref();
        let (path, reason) = match flag {
            "cafile" => (
                self.authority.as_ref(),
                "it holds no certificate of an authority (PEM)",
            ),
            "keyfile" => (
                identity.map(|both| &both.1),
                "it holds no private key (PEM)",
            ),
            _ => (
                identity.map(|both| &both.0),
                "it holds no certificate (PEM), or the key of --etcd-keyfile does not fit it",
            ),
        };
        ConnectError::File {
            flag,
            path: path.cloned().unwrap_or_default(),
            reason: reason.to_owned(),
        }
    }
}

/// The content of the files, in PEM.
#[derive(PartialEq, Eq)]
pub(super) struct Pem {
    pub(super) authority: Vec<u8>,
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, ConnectError> {
    match given::read(path, given::PEM_BYTES_MAX) {
        Ok(file) => Ok(file.bytes.to_vec()),
        Err(error) => Err(ConnectError::File {
            flag,
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}
