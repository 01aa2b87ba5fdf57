//! The configuration while the daemon runs: a changed file replaces the chain as a whole, a wrong
//! one changes nothing (AC-33).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use futures_util::future::{BoxFuture, FutureExt};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use parking_lot::Mutex;

use super::super::digests::{digest, server};
use super::super::{Attributes, Authorization, Authorizer, Authorizers, Rules};
use super::chain::BuiltIn;
use super::document::{AuthorizerType, Entry, parse};
use crate::api::user_info::UserInfo;
use crate::files::{Stamp, given};

/// The most bytes of the file: 64 webhooks with 64 long expressions are smaller.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// How often the file is looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// How often the file is read even if it seems unchanged.
const READ_PERIOD: Duration = Duration::from_secs(60);

const RELOADS: &str = "apiserver_authorization_config_controller_automatic_reloads_total";
const LAST_RELOAD: &str =
    "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds";
const INFO: &str = "apiserver_authorization_config_controller_last_config_info";

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
        let bytes = contents(file)?;
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

fn contents(file: &Path) -> Result<Vec<u8>, ConfigurationError> {
    let unreadable = |error: std::io::Error| {
        let problem = format!("open {}: {error}", file.display());
        ConfigurationError::new(problem)
    };
    let given = given::read(file, FILE_BYTES_MAX).map_err(unreadable)?;
    given.check_writers().map_err(unreadable)?;
    Ok(given.bytes.to_vec())
}

/// The authorizers of a file, which may change.
pub struct ConfiguredAuthorizers {
    built_in: BuiltIn,
    file: PathBuf,
    /// The types that every configuration must have.
    required: Vec<AuthorizerType>,
    current: ArcSwap<Authorizers>,
    /// The bytes that were read last, whether they could be used or not.
    read: Mutex<Vec<u8>>,
}

/// The result of reading the file again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The bytes that were read before.
    Unchanged,
    /// Another configuration, which is in use now.
    Changed,
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
        describe();
        let kinds = loaded.entries.iter().map(|entry| entry.kind);
        let required = kinds.filter(|kind| *kind != AuthorizerType::Webhook);
        let required: BTreeSet<AuthorizerType> = required.collect();
        let chain = built_in.chain(loaded.entries);
        let chain = chain.map_err(ConfigurationError::new)?;
        in_use(&loaded.bytes, 1.0);
        Ok(ConfiguredAuthorizers {
            built_in,
            file: loaded.file,
            required: required.into_iter().collect(),
            current: ArcSwap::from_pointee(chain),
            read: Mutex::new(loaded.bytes),
        })
    }

    /// Reads the file again, and uses it if it has changed and is right. It blocks on the file.
    ///
    /// # Errors
    /// [`ConfigurationError`]. The previous configuration stays in use.
    pub fn reload(&self) -> Result<Reloaded, ConfigurationError> {
        // Held to the end, so that the reload that read the file last wins.
        let mut read = self.read.lock();
        let reloaded = self.changed(&mut read);
        match &reloaded {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => count("success"),
            Err(_) => count("failure"),
        }
        reloaded
    }

    fn changed(&self, read: &mut Vec<u8>) -> Result<Reloaded, ConfigurationError> {
        let bytes = contents(&self.file)?;
        if bytes == *read {
            return Ok(Reloaded::Unchanged);
        }
        let before = std::mem::replace(read, bytes);
        let entries = parse(read, &self.required).map_err(ConfigurationError::new)?;
        let chain = self.built_in.chain(entries);
        let chain = chain.map_err(ConfigurationError::new)?;
        // Requests that have begun keep the chain that they have.
        self.current.store(Arc::new(chain));
        in_use(&before, 0.0);
        in_use(read, 1.0);
        Ok(Reloaded::Changed)
    }

    /// Follows the file; never returns. A file that is being written is left alone until it stays
    /// the same for a moment.
    pub async fn follow(self: Arc<Self>) {
        let mut seen = Stamp::of(&self.file);
        let (mut last, mut since_read) = (seen, Duration::ZERO);
        loop {
            tokio::time::sleep(LOOK_PERIOD).await;
            since_read += LOOK_PERIOD;
            let now = Stamp::of(&self.file);
            let is_settled = now == last;
            last = now;
            if is_settled && now != seen || since_read >= READ_PERIOD {
                (seen, since_read) = (now, Duration::ZERO);
                let own = Arc::clone(&self);
                let reloaded = tokio::task::spawn_blocking(move || own.reload()).await;
                // The runtime is ending.
                let Ok(reloaded) = reloaded else { return };
                self.log(&reloaded);
            }
        }
    }

    fn log(&self, reloaded: &Result<Reloaded, ConfigurationError>) {
        let file = self.file.display();
        match reloaded {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => {
                tracing::info!(%file, "the authorization configuration has been reloaded");
            }
            Err(error) => tracing::error!(
                %file, %error,
                "the authorization configuration was not reloaded; keeping the previous one"
            ),
        }
    }
}

impl Authorizer for ConfiguredAuthorizers {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        let current = self.current.load_full();
        async move { current.authorize(attributes).await }.boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let current = self.current.load_full();
        async move { current.rules_for(user, namespace).await }.boxed()
    }
}

fn describe() {
    describe_counter!(
        RELOADS,
        "Reloads of the authorization configuration by outcome"
    );
    describe_gauge!(
        LAST_RELOAD,
        Unit::Seconds,
        "When the authorization configuration was last reloaded, by outcome, as a Unix time"
    );
    describe_gauge!(
        INFO,
        "1 for the digest of the authorization configuration in use"
    );
}

fn count(status: &'static str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let labels = [
        ("status", status.to_owned()),
        ("apiserver_id_hash", server()),
    ];
    counter!(RELOADS, &labels).increment(1);
    gauge!(LAST_RELOAD, &labels).set(now.unwrap_or_default().as_secs_f64());
}

fn in_use(bytes: &[u8], used: f64) {
    let labels = [("hash", digest(bytes)), ("apiserver_id_hash", server())];
    gauge!(INFO, &labels).set(used);
}

#[cfg(test)]
mod tests;
