//! The credentials of users, and the reload of their files while the daemon runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::StartError;
use crate::config::Config;
use crate::server::auth::{
    Authenticators, Reload, Revocations, StaticTokens, load_or_create_token, write_kubeconfig,
};

/// The admin, with the token in the data directory, and the users of a file.
#[derive(Clone)]
pub(super) struct Credentials {
    tokens: Arc<StaticTokens>,
    authenticator: Arc<Authenticators>,
    kubeconfig: PathBuf,
    data_dir: PathBuf,
    address: SocketAddr,
    trust_pem: String,
}

impl Credentials {
    /// Reads or creates the credentials and the admin's kubeconfig for a server at this address.
    pub(super) fn load(
        config: &Config,
        address: SocketAddr,
        trust_pem: &str,
    ) -> Result<Credentials, StartError> {
        let data_dir = config.data_dir.as_path();
        let token = load_or_create_token(data_dir)?;
        let revocations = Revocations::default();
        let mut tokens = StaticTokens::new(token.clone(), revocations.clone()).following(data_dir);
        if config.token_auth_file.is_set() {
            tokens = tokens.with_file(config.token_auth_file.as_path())?;
        }
        let tokens = Arc::new(tokens);
        let authenticator = Authenticators::new(vec![tokens.clone()], revocations);
        Ok(Credentials {
            tokens,
            authenticator: Arc::new(authenticator),
            kubeconfig: write_kubeconfig(data_dir, address, trust_pem, &token)?,
            data_dir: data_dir.to_owned(),
            address,
            trust_pem: trust_pem.to_owned(),
        })
    }

    pub(super) fn authenticator(&self) -> Arc<Authenticators> {
        Arc::clone(&self.authenticator)
    }

    /// The path of the admin's kubeconfig.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Reads the files again and logs the result. The kubeconfig then has the current token, even
    /// if it could not be written before.
    pub(super) async fn reload(&self) {
        let credentials = self.clone();
        let reading = actix_rt::task::spawn_blocking(move || credentials.read_again());
        if let Err(error) = reading.await {
            tracing::error!(%error, "SIGHUP: reading the tokens was not finished");
        }
    }

    fn read_again(&self) {
        let Reload {
            admin,
            token,
            users,
            watches,
        } = self.tokens.reload();
        let admin_token = match &admin {
            Ok(false) => "unchanged",
            Ok(true) => "replaced",
            Err(_) => "kept",
        };
        if let Err(error) = admin {
            tracing::error!(%error, "SIGHUP: keeping the previous admin token");
        }
        let written = write_kubeconfig(&self.data_dir, self.address, &self.trust_pem, &token);
        if let Err(error) = written {
            tracing::error!(%error, "SIGHUP: the admin's kubeconfig could not be written");
        }
        let users = users.unwrap_or_else(|error| {
            tracing::error!(%error, "SIGHUP: keeping the previous users");
            None
        });
        tracing::info!(
            admin_token,
            users,
            watches_ended = watches,
            "SIGHUP: the files of tokens were read again"
        );
    }
}
