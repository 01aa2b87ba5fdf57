//! The options of an etcd engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use actors::watchdog::Watchdog;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

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
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// URLs of the members: `http://host:port` or `https://host:port`.
    pub servers: Vec<String>,
    /// TLS of the `https` ones.
    pub tls: TlsFiles,
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
            tls: TlsFiles::default(),
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

    /// The TLS of connections to a server.
    pub(super) fn read(&self, url: &str) -> Result<ClientTlsConfig, ConnectError> {
        let Some(authority) = &self.authority else {
            return Err(ConnectError::NoAuthority(url.to_owned()));
        };
        let authority = Certificate::from_pem(read("cafile", authority)?);
        let tls = ClientTlsConfig::new().ca_certificate(authority);
        let Some((certificate, key)) = &self.identity else {
            return Ok(tls);
        };
        let identity = Identity::from_pem(read("certfile", certificate)?, read("keyfile", key)?);
        Ok(tls.identity(identity))
    }
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
