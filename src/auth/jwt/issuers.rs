//! All issuers, and the reload of their configuration without a gap (AC-23).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::access::Revocations;
use super::super::compact_token::CompactToken;
use super::super::followed_file::{Configured, FollowedFile, NotUsed, contents};
use super::super::token_lookups::{Found, TokenLookup};
use super::config::{AnonymousConfig, AuthenticationConfiguration};
use super::issuer::Issuer;
use super::keys::LIMITS;
use super::{metrics, validation};
use crate::egress::EgressClient;

/// The file, which is followed.
static CONFIGURED: Configured = Configured {
    name: "authentication",
    bytes_max: 4 << 20,
    reloads: "apiserver_authentication_config_controller_automatic_reloads_total",
    last_reload: "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
    in_use: "apiserver_authentication_config_controller_last_config_info",
};

/// How long the issuers of a new file may take until they are ready.
const READY: Duration = match cfg!(test) {
    true => Duration::from_secs(2),
    false => Duration::from_secs(60),
};

/// The authentication configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationConfigError {
    /// The file cannot be read or decoded.
    #[error("failed to load authentication configuration from file {0:?}: {1}")]
    Unreadable(PathBuf, String),
    /// Values are wrong.
    #[error("invalid authentication configuration: {0}")]
    Invalid(String),
}

/// The file of `--authentication-config` when it was last read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    path: PathBuf,
    text: Vec<u8>,
    /// Its content.
    pub config: AuthenticationConfiguration,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read or decoded, or others can write it.
    pub fn read(path: &Path) -> Result<ConfigFile, AuthenticationConfigError> {
        let refuse = |why: String| AuthenticationConfigError::Unreadable(path.to_owned(), why);
        let text = contents(path, CONFIGURED.bytes_max);
        let text = text.map_err(|why| refuse(why.to_string()))?;
        let config = AuthenticationConfiguration::parse(&text).map_err(refuse)?;
        Ok(ConfigFile {
            path: path.to_owned(),
            text,
            config,
        })
    }
}

/// Checks a configuration. `disallowed` are the issuers of service account tokens.
///
/// # Errors
/// [`AuthenticationConfigError`]
pub fn check_authentication_config(
    config: &AuthenticationConfiguration,
    disallowed: &[String],
) -> Result<(), AuthenticationConfigError> {
    let checked = validation::validate(config, disallowed);
    checked
        .map(|_| ())
        .map_err(AuthenticationConfigError::Invalid)
}

/// An issuer, and the task that waits for its keys.
#[derive(Clone)]
struct Running {
    issuer: Arc<Issuer>,
    _preparing: Arc<Preparing>,
}

/// The task ends with the last user of the issuer.
struct Preparing(AbortHandle);

impl Drop for Preparing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Identifies the users of tokens of other issuers.
pub struct JwtIssuers {
    issuers: ArcSwap<Vec<Running>>,
    disallowed: Vec<String>,
    anonymous: Option<AnonymousConfig>,
    client: Arc<EgressClient>,
    revocations: Revocations,
}

impl JwtIssuers {
    /// Creates an authenticator for the issuers of a configuration, and begins to ask them for
    /// their keys. Runs within a runtime of tokio.
    ///
    /// # Errors
    /// [`AuthenticationConfigError`]
    pub fn start(
        config: &AuthenticationConfiguration,
        disallowed: Vec<String>,
        client: Arc<EgressClient>,
        revocations: Revocations,
    ) -> Result<JwtIssuers, AuthenticationConfigError> {
        metrics::describe();
        let issuers = JwtIssuers {
            issuers: ArcSwap::default(),
            disallowed,
            anonymous: config.anonymous.clone(),
            client,
            revocations,
        };
        let running = issuers.running(config);
        let running = running.map_err(AuthenticationConfigError::Invalid)?;
        issuers.issuers.store(Arc::new(running));
        Ok(issuers)
    }

    /// Returns the issuers of a configuration. Those that have not changed are the same as before.
    fn running(&self, config: &AuthenticationConfiguration) -> Result<Vec<Running>, String> {
        let expressions = validation::validate(config, &self.disallowed)?;
        let before = self.issuers.load();
        let all = config.jwt.iter().zip(expressions);
        let all = all.map(|(config, expressions)| {
            // linear: at most 64 issuers, when the configuration is read.
            let known = before.iter().find(|one| one.issuer.config == *config);
            known.cloned().unwrap_or_else(|| {
                let client = Arc::clone(&self.client);
                let issuer = Arc::new(Issuer::new(config.clone(), expressions, client));
                let preparing = Arc::clone(&issuer);
                let task = tasks::spawn(async move { preparing.keys.prepare().await });
                Running {
                    issuer,
                    _preparing: Arc::new(Preparing(task.abort_handle())),
                }
            })
        });
        Ok(all.collect())
    }

    /// Replaces the configuration as soon as all of its issuers are ready.
    ///
    /// # Errors
    /// The configuration is wrong, or an issuer was not ready in time. The earlier one stays.
    async fn replace(&self, config: &AuthenticationConfiguration) -> Result<(), NotUsed> {
        if config.anonymous != self.anonymous {
            let why = "anonymous: changed from initial configuration file";
            return Err(NotUsed::Faulty(why.to_owned()));
        }
        let next = self.running(config).map_err(NotUsed::Faulty)?;
        let ready = join_all(next.iter().map(|one| one.issuer.keys.ready()));
        let ready = timeout(READY, ready).await;
        ready.map_err(|_| NotUsed::NotYet("its issuers are not ready yet".to_owned()))?;
        let is_kept = |before: &&Running| {
            // linear: at most 64 issuers, when the configuration is read.
            !next
                .iter()
                .any(|one| Arc::ptr_eq(&one.issuer, &before.issuer))
        };
        let before = self.issuers.load_full();
        let gone: Vec<Running> = before.iter().filter(is_kept).cloned().collect();
        self.issuers.store(Arc::new(next));
        let watches = gone
            .iter()
            .map(|one| self.revocations.revoke(&one.issuer.access));
        let watches_ended: usize = watches.sum();
        tracing::info!(
            issuers = config.jwt.len(),
            watches_ended,
            "the authentication configuration has other issuers"
        );
        Ok(())
    }

    /// Follows the file; never returns. A file that cannot be used changes nothing.
    pub async fn follow(&self, file: ConfigFile) {
        let mut followed = FollowedFile::new(&CONFIGURED, file.path, file.text);
        followed
            .follow(async |bytes| {
                let config = AuthenticationConfiguration::parse(bytes);
                self.replace(&config.map_err(NotUsed::Faulty)?).await
            })
            .await;
    }

    /// Waits until all issuers are ready.
    #[cfg(test)]
    pub(super) async fn ready(&self) {
        let issuers = self.issuers.load_full();
        join_all(issuers.iter().map(|one| one.issuer.keys.ready())).await;
    }

    #[cfg(test)]
    pub(super) async fn replaced(
        &self,
        config: &AuthenticationConfiguration,
    ) -> Result<(), NotUsed> {
        self.replace(config).await
    }
}

impl TokenLookup for JwtIssuers {
    fn look_up<'a>(&'a self, token: &'a [u8], _audiences: &'a [String]) -> BoxFuture<'a, Found> {
        let found = async move {
            let Some(token) = CompactToken::parse(token, LIMITS) else {
                return Ok(None);
            };
            let issuers = self.issuers.load_full();
            let url = token.issuer();
            // linear: at most 64 issuers.
            let issuer = issuers
                .iter()
                .find(|one| one.issuer.config.issuer.url == url);
            match issuer {
                Some(running) => running.issuer.found(&token).await,
                None => Ok(None),
            }
        };
        found.boxed()
    }
}
