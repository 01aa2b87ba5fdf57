//! Encryption at rest, in Kubernetes' own configuration and format. kube-apiserver and Taffrail can
//! read each other's values.
//!
//! The rest of storage uses the traits [`Transformer`] and [`TransformerSource`]. This folder must
//! not know engines, and of objects only whether bytes look like a stored one. [`Encryption`] hands
//! out a transformer for each resource and replaces its content when the file changes. [`config`]
//! parses the file, [`rules`] chooses the providers of a resource, [`prefix_transformers`] chooses
//! provider and key of a value, and [`ciphers`] has one file for each cipher.

mod ciphers;
mod config;
mod file;
mod generations;
mod metrics;
mod prefix_transformers;
mod reload;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actors::engine::Key;
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;

use self::config::Configuration;
use self::file::Contents;
use self::generations::Generations;
use self::prefix_transformers::{Fault, PrefixTransformers, ValueTransformer};
use self::rules::Rules;
use super::Hold;
use super::transformer::{Identity, TransformError, Transformer, TransformerSource};

pub use self::metrics::describe;
pub use reload::{POLL_PERIOD, Reload, follow};

/// The setting that names the file.
const SETTING: &str = "encryption-provider-config";

/// Provides the transformer of each resource. Cheap to clone. Clones share what a reload changes.
#[derive(Clone, Default)]
pub struct Encryption {
    config: Arc<ReloadableConfig>,
}

#[derive(Default)]
struct ReloadableConfig {
    /// `None` when nothing is configured.
    path: Option<PathBuf>,
    active: Mutex<ActiveConfig>,
    /// Held while a reload checks the file.
    checking: Mutex<()>,
    generations: Arc<Generations>,
}

#[derive(Default)]
struct ActiveConfig {
    rules: Rules,
    /// The digest of the file that the rules come from.
    digest: String,
    /// The transformers in use, by group and plural.
    handed_out: BTreeMap<(String, String), Arc<ResourceTransformer>>,
}

/// The reason why a configuration cannot be used: one line for the operator (SF-32). Never shows a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{SETTING}={}: {phase}: {problem}", .path.display())]
pub struct EncryptionError {
    path: PathBuf,
    phase: Phase,
    problem: String,
}

/// The phase that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Parsing,
    Building,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Parsing => "error while parsing the file",
            Phase::Building => "error while building the transformers",
        })
    }
}

impl Encryption {
    /// No configuration: values are stored as they are (EN-3).
    pub fn none() -> Encryption {
        Encryption::default()
    }

    /// Loads the configuration from a file.
    ///
    /// # Errors
    /// [`EncryptionError`] with all errors of the file.
    pub fn load(path: &Path) -> Result<Encryption, EncryptionError> {
        let contents = contents_of(path)?;
        let active = ActiveConfig {
            rules: rules_of(path, &contents)?,
            digest: contents.digest,
            handed_out: BTreeMap::new(),
        };
        reload::publish_digest(&active.digest, 1.0);
        Ok(Encryption {
            config: Arc::new(ReloadableConfig {
                path: Some(path.to_owned()),
                active: Mutex::new(active),
                checking: Mutex::default(),
                generations: Arc::default(),
            }),
        })
    }

    /// Whether there is a configuration. A file without keys is one, too.
    pub fn is_configured(&self) -> bool {
        self.config.path.is_some()
    }

    /// The number of the current configuration. Each reload that changes it adds one.
    pub fn generation(&self) -> u64 {
        self.config.generations.number()
    }

    /// Waits until all writes that an earlier configuration has encrypted have ended. Returns the
    /// generation of the current configuration.
    pub async fn settled(&self) -> u64 {
        self.config.generations.settled().await
    }

    /// Returns resources in the configuration that are not served. They may be misspelt.
    pub fn unknown_resources(&self) -> Vec<String> {
        let active = self.config.active.lock();
        let is_unknown = |name: &&config::ResourceName| {
            let place = (name.group.clone(), name.resource.clone());
            !active.handed_out.contains_key(&place)
        };
        let names = active.rules.named().filter(is_unknown);
        names.map(ToString::to_string).collect()
    }

    /// Whether a definition may bring resources of a group that has none yet.
    fn may_be_custom(&self, group: &str) -> bool {
        let active = self.config.active.lock();
        let mut places = active.handed_out.keys();
        group.contains('.') && !places.any(|(known, _)| known == group)
    }

    /// Warns of resources in the configuration that are not served. Call it once all resources have
    /// their transformers. A reload calls it by itself.
    pub fn warn_of_unknown_resources(&self) {
        for resource in self.unknown_resources() {
            let group = resource.split_once('.').map_or("", |(_, group)| group);
            match self.may_be_custom(group) {
                true => tracing::warn!(
                    resource,
                    "{SETTING}: no such resource is served; the rule holds for a custom resource, \
                     once a definition brings it"
                ),
                false => tracing::warn!(
                    resource,
                    "{SETTING}: no such resource is served; is it misspelt?"
                ),
            }
        }
    }
}

impl TransformerSource for Encryption {
    /// The transformer of a resource. It follows every reload.
    fn transformer_for(&self, group: &str, plural: &str) -> Arc<dyn Transformer> {
        if self.config.path.is_none() {
            return Arc::new(Identity);
        }
        let mut active = self.config.active.lock();
        let transformers = active.rules.transformers_for(group, plural);
        let place = (group.to_owned(), plural.to_owned());
        let transformer = active.handed_out.entry(place).or_insert_with(|| {
            let generations = self.config.generations.clone();
            Arc::new(ResourceTransformer::new(transformers, generations))
        });
        transformer.clone()
    }
}

impl EncryptionError {
    fn new(path: &Path, phase: Phase, problem: String) -> EncryptionError {
        EncryptionError {
            path: path.to_owned(),
            phase,
            problem,
        }
    }
}

fn contents_of(path: &Path) -> Result<Contents, EncryptionError> {
    file::read(path).map_err(|problem| EncryptionError::new(path, Phase::Parsing, problem))
}

fn rules_of(path: &Path, contents: &Contents) -> Result<Rules, EncryptionError> {
    if let Some((mode, remedy)) = &contents.open_mode {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{mode:04o}"),
            "others than its owner can read the file of keys; {remedy}"
        );
    }
    let configuration = Configuration::parse(&contents.text)
        .map_err(|problems| EncryptionError::new(path, Phase::Parsing, problems.join("; ")))?;
    Rules::new(&configuration)
        .map_err(|problem| EncryptionError::new(path, Phase::Building, problem.to_string()))
}

/// The transformer of one resource. A reload replaces its content.
struct ResourceTransformer {
    /// `None` when no rule covers the resource.
    transformers: ArcSwap<Option<PrefixTransformers>>,
    generations: Arc<Generations>,
}

impl ResourceTransformer {
    fn new(
        transformers: Option<PrefixTransformers>,
        generations: Arc<Generations>,
    ) -> ResourceTransformer {
        ResourceTransformer {
            transformers: ArcSwap::from_pointee(transformers),
            generations,
        }
    }
}

impl Transformer for ResourceTransformer {
    fn hold(&self) -> Option<Hold> {
        Some(self.generations.hold())
    }

    fn transform_from_storage(
        &self,
        key: &Key,
        stored: &Bytes,
    ) -> Result<(Bytes, bool), TransformError> {
        match &**self.transformers.load() {
            Some(transformers) => transformers
                .read(key, stored)
                .map_err(|fault| of(key, fault)),
            None => Identity.transform_from_storage(key, stored),
        }
    }

    fn transform_to_storage(&self, key: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError> {
        let transformers = self.transformers.load();
        let Some(transformers) = &**transformers else {
            return Identity.transform_to_storage(key, plain);
        };
        /// The prefixes, nonce and tag together are shorter, unless key names are long.
        const ADDED: usize = 128;
        let mut stored = Vec::with_capacity(plain.len() + ADDED);
        let written = transformers.write(key, &plain, &mut stored);
        written.map_err(|fault| of(key, fault))?;
        Ok(Bytes::from(stored))
    }
}

fn of(key: &Key, fault: Fault) -> TransformError {
    TransformError {
        key: key.to_string(),
        reason: fault.0,
    }
}
