//! The reasons why the daemon cannot start.

use actors::supervisor::ActorSystemError;

use crate::admission::configuration::ConfigurationError;
use crate::auth::jwt::AuthenticationConfigError;
use crate::auth::kubeconfigs::KubeconfigError;
use crate::auth::service_accounts::KeyFileError;

use crate::auth::{AdminError, TokenFileError};
use crate::kubelet::KubeletSettingsError;
use crate::registry::definition_check::DefinitionError;
use crate::server::audit::AuditError;
use crate::storage::embedded::OpenError;
use crate::storage::encryption::EncryptionError;
use crate::storage::etcd::ConnectError;
use crate::storage::factory::FactoryError;
use crate::transport::listener::BindError;
use crate::transport::tls::TlsError;

/// A reason why the daemon cannot start, in one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is in use, or may not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The resources cannot be served together.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A resource cannot be stored as configured.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The encryption configuration is invalid (SF-32).
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// A connection to etcd cannot be set up as configured.
    #[error(transparent)]
    Etcd(#[from] ConnectError),
    /// Certificates cannot be read or created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin's credentials cannot be read or created.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The token file is invalid.
    #[error(transparent)]
    Users(#[from] TokenFileError),
    /// A key for tokens of service accounts is invalid.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The certificates for kubelets cannot be used.
    #[error(transparent)]
    Kubelets(#[from] KubeletSettingsError),
    /// The configuration of the issuers of tokens is invalid.
    #[error(transparent)]
    Authentication(#[from] AuthenticationConfigError),
    /// The kubeconfig of a webhook is invalid.
    #[error("--{setting}: {error}")]
    Kubeconfig {
        /// The setting that names it.
        setting: &'static str,
        /// The fault.
        error: KubeconfigError,
    },
    /// The configuration of admission plugins is invalid.
    #[error("--admission-control-config-file: {0}")]
    Admission(ConfigurationError),
    /// The authorizers cannot be set up as configured.
    #[error("invalid authorization config: {0}")]
    Authorization(String),
    /// The actors cannot be started.
    #[error(transparent)]
    ActorSystem(#[from] ActorSystemError),
    /// The thread of the watchdog, or those for large requests, cannot be started.
    #[error(
        "no more threads can be started: {0}; raise the limit of processes of the daemon's user"
    )]
    Threads(std::io::Error),
    /// The threads that serve HTTP cannot be started.
    #[error(
        "no thread to serve HTTP: {0}; raise the limit of processes of the daemon's user, or lower \
         http-threads"
    )]
    HttpThreads(std::io::Error),
    /// Several errors of the configuration.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<StartError>),
    /// Daemons share the namespaces, but not the Lease for an election.
    #[error(
        "--etcd-servers-overrides: namespaces are kept by servers that other daemons share, leases \
         by this daemon alone; daemons agree by a lease on who empties deleted namespaces: give \
         coordination.k8s.io/leases servers, too, and serve them"
    )]
    NoAgreement,
    /// The resources lack namespaces.
    #[error("the table of resources lacks namespaces")]
    NoNamespaces,
    /// The authorizer RBAC is wanted, and a resource that it reads is not served.
    #[error(
        "authorization-mode RBAC reads {0}, which runtime-config does not serve; serve \
         rbac.authorization.k8s.io/v1, or leave RBAC out"
    )]
    NoRoles(&'static str),
}

impl StartError {
    /// Returns whether the configuration is invalid. Otherwise it could not be carried out.
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
                | StartError::Authentication(_)
                | StartError::Kubeconfig { .. }
                | StartError::Admission(_)
                | StartError::Authorization(_)
                | StartError::Several(_)
                | StartError::NoAgreement
        )
    }
}
