//! The reasons why an etcd engine cannot be created.

use std::path::PathBuf;

/// Why an engine cannot be created: one line for the operator. A server that does not answer is not
/// a reason, because it may come later.
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
        /// The problem with it.
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
