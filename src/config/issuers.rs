//! The issuers of the tokens of service accounts: named, or the default one.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use super::{Config, Names, StorageBackend};

/// The default issuer, as the members of the cluster know it.
const DEFAULT: &str = "https://kubernetes.default.svc.cluster.local";

/// Names of issuers, or `auto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issuers {
    /// The default issuer, where the daemon's own key is enough.
    Automatic,
    /// Exactly these.
    Exactly(Names),
}

impl FromStr for Issuers {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Issuers, Infallible> {
        match text {
            "auto" => Ok(Issuers::Automatic),
            text => text.parse().map(Issuers::Exactly),
        }
    }
}

impl fmt::Display for Issuers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Issuers::Automatic => formatter.write_str("auto"),
            Issuers::Exactly(names) => names.fmt(formatter),
        }
    }
}

impl Config {
    /// The issuers that all settings together select. Daemons on one etcd must share a key, which
    /// they can't make by themselves, so there an issuer must be named.
    pub fn issuers(&self) -> Vec<String> {
        match &self.service_account_issuer {
            Issuers::Exactly(names) => names.0.clone(),
            Issuers::Automatic if self.backend() == StorageBackend::Etcd3 => Vec::new(),
            Issuers::Automatic => vec![DEFAULT.to_owned()],
        }
    }
}
