//! The configuration while the daemon runs: a changed file replaces the chain as a whole, a wrong
//! one changes nothing (AC-33).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actors::tasks;
use arc_swap::ArcSwap;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::Mutex;

#[cfg(test)]
use super::super::followed_file::Reloaded;
use super::super::followed_file::{Configured, FollowedFile, NotUsed, contents};
use super::super::{Attributes, Authorization, Authorizer, Authorizers, Rules};
use super::chain::BuiltIn;
use super::document::{AuthorizerType, Entry, parse};
use crate::api::user_info::UserInfo;

/// The file, which is followed. 64 webhooks with 64 long expressions are smaller.
static CONFIGURED: Configured = Configured {
    name: "authorization",
    bytes_max: 8 << 20,
    reloads: "apiserver_authorization_config_controller_automatic_reloads_total",
    last_reload: "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
    in_use: "apiserver_authorization_config_controller_last_config_info",
};

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ConfigurationError {
    /// The fault.
    pub problem: String,
}

impl ConfigurationError {
    fn new(problem: impl ToString) -> ConfigurationError {
        ConfigurationError {
            problem: problem.to_string(),
        }
    }
}

/// A file of authorizers that was read and checked.
pub struct Loaded {
    file: PathBuf,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Loaded {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigurationError`]
    pub fn read(file: &Path) -> Result<Loaded, ConfigurationError> {
        let unreadable = |error| {
            let problem = format!("open {}: {error}", file.display());
            ConfigurationError::new(problem)
        };
        let bytes = contents(file, CONFIGURED.bytes_max).map_err(unreadable)?;
        let entries = parse(&bytes, &[]).map_err(ConfigurationError::new)?;
        Ok(Loaded {
            file: file.to_owned(),
            bytes,
            entries,
        })
    }

    /// Returns whether it lists an authorizer of this type.
    pub fn has(&self, kind: AuthorizerType) -> bool {
        self.entries.iter().any(|entry| entry.kind == kind)
    }
}

/// The authorizers of a file, which may change.
pub struct ConfiguredAuthorizers {
    chain: Arc<Chain>,
    file: Mutex<FollowedFile>,
}

/// The chain in use.
struct Chain {
    built_in: BuiltIn,
    /// The types that every configuration must have.
    required: Vec<AuthorizerType>,
    current: ArcSwap<Authorizers>,
}

impl ConfiguredAuthorizers {
    /// Builds the chain of a file.
    ///
    /// # Errors
    /// [`ConfigurationError`]
    pub fn new(
        loaded: Loaded,
        built_in: BuiltIn,
    ) -> Result<ConfiguredAuthorizers, ConfigurationError> {
        let kinds = loaded.entries.iter().map(|entry| entry.kind);
        let required = kinds.filter(|kind| *kind != AuthorizerType::Webhook);
        let required: BTreeSet<AuthorizerType> = required.collect();
        let chain = built_in.chain(loaded.entries);
        let chain = chain.map_err(ConfigurationError::new)?;
        let file = FollowedFile::new(&CONFIGURED, loaded.file, loaded.bytes);
        Ok(ConfiguredAuthorizers {
            chain: Arc::new(Chain {
                built_in,
                required: required.into_iter().collect(),
                current: ArcSwap::from_pointee(chain),
            }),
            file: Mutex::new(file),
        })
    }

    /// Follows the file; never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut file = self.file.lock().await;
        file.follow(async |bytes| self.chain.replace(bytes).await)
            .await;
    }

    /// Reads the file again, and uses it if it has changed and is right.
    #[cfg(test)]
    async fn reload(&self) -> Result<Reloaded, String> {
        let mut file = self.file.lock().await;
        file.reload(async |bytes| self.chain.replace(bytes).await)
            .await
    }
}

impl Chain {
    /// Builds the chain of new content, for which it reads the files of webhooks.
    async fn replace(self: &Arc<Self>, bytes: &[u8]) -> Result<(), NotUsed> {
        let (chain, bytes) = (Arc::clone(self), bytes.to_vec());
        let next = tasks::spawn_blocking(move || {
            let entries = parse(&bytes, &chain.required)?;
            let next = chain.built_in.chain(entries);
            next.map_err(|error| error.to_string())
        });
        let next = next.await;
        let next = next.map_err(|error| NotUsed::NotYet(error.to_string()))?;
        // Requests that have begun keep the chain that they have.
        self.current.store(Arc::new(next.map_err(NotUsed::Faulty)?));
        Ok(())
    }
}

impl Authorizer for ConfiguredAuthorizers {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        let current = self.chain.current.load_full();
        async move { current.authorize(attributes).await }.boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let current = self.chain.current.load_full();
        async move { current.rules_for(user, namespace).await }.boxed()
    }
}

#[cfg(test)]
mod tests;
