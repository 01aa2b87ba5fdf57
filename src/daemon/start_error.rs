//! Why the daemon could not start.

use actors::supervisor::ActorSystemError;

use crate::registry::definition_check::DefinitionError;
use crate::server::audit::AuditError;
use crate::server::auth::{AdminError, TokenFileError};
use crate::server::listener::BindError;
use crate::server::service_accounts::KeyFileError;
use crate::server::tls::TlsError;
use crate::storage::embedded::OpenError;
use crate::storage::encryption::EncryptionError;
use crate::storage::etcd::ConnectError;
use crate::storage::factory::FactoryError;

/// The reason why the daemon could not start, in one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is in use or may not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Resources can't be served together.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A resource can't be stored as configured.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The encryption configuration can't be used (SF-32).
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// An etcd connection can't be set up as configured.
    #[error(transparent)]
    Etcd(#[from] ConnectError),
    /// Certificates can't be read or created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin's credentials can't be read or created.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// There can be no audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The file of users can't be used.
    #[error(transparent)]
    Users(#[from] TokenFileError),
    /// A key of tokens of service accounts can't be used.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The actors can't be started.
    #[error(transparent)]
    ActorSystem(#[from] ActorSystemError),
    /// The watchdog's thread or those for large requests can't be started.
    #[error(
        "no more threads can be started: {0}; raise the limit of processes of the daemon's user"
    )]
    Threads(std::io::Error),
    /// The threads that serve HTTP can't be started.
    #[error(
        "no thread to serve HTTP: {0}; raise the limit of processes of the daemon's user, or lower \
         http-threads"
    )]
    HttpThreads(std::io::Error),
    /// Several errors, all of which are refusals.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<StartError>),
    /// The daemons that share namespaces have no common Lease for an election.
    #[error(
        "--etcd-servers-overrides: namespaces are kept by servers that other daemons share, leases \
         by this daemon alone; daemons agree by a lease on who empties deleted namespaces: give \
         coordination.k8s.io/leases servers, too, and serve them"
    )]
    NoAgreement,
    /// The table of resources has no namespaces.
    #[error("the table of resources lacks namespaces")]
    NoNamespaces,
}

impl StartError {
    /// Whether the configuration is at fault, and not its execution.
    pub fn is_refusal(&self) -> bool {
        if let StartError::Tls(error) = self {
            return error.setting.is_some();
        }
        matches!(
            self,
            StartError::Factory(_)
                | StartError::Encryption(_)
                | StartError::Etcd(_)
                | StartError::Audit(_)
                | StartError::Users(_)
                | StartError::Keys(_)
                | StartError::Several(_)
                | StartError::NoAgreement
        )
    }
}
