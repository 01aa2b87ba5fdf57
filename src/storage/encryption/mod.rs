//! Encryption at rest: values on their way to the engine and back, by Kubernetes' own
//! configuration file and in its own format, so that either reads what the other wrote.
//!
//! `config/` reads the file, `ciphers/` has a file for each cipher, `prefix_transformers.rs` picks among
//! providers and keys, `rules.rs` among resources; [`Encryption`] hands out what serves a resource
//! and exchanges it when the file changes. Whoever stores knows the trait
//! [`Transformer`] and nothing of this.

mod ciphers;
mod config;
mod file;
mod generations;
mod measures;
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

pub use measures::describe;
pub use reload::{POLL_PERIOD, Reload, follow};

/// The setting that names the file.
const SETTING: &str = "encryption-provider-config";

/// Which transformer serves which resource. Cheap to clone; clones share what a reload changes.
#[derive(Clone, Default)]
pub struct Encryption {
    config: Arc<ReloadableConfig>,
}

#[derive(Default)]
struct ReloadableConfig {
    /// None when nothing is configured.
    path: Option<PathBuf>,
    active: Mutex<ActiveConfig>,
    /// Held by who looks whether the file has changed.
    looking: Mutex<()>,
    generations: Arc<Generations>,
}

#[derive(Default)]
struct ActiveConfig {
    rules: Rules,
    /// Of the file that the rules are from.
    digest: String,
    /// By group and plural.
    handed_out: BTreeMap<(String, String), Arc<ResourceTransformer>>,
}

/// Why a configuration can't be used: one line for the operator (SF-32). Never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{SETTING}={}: {phase}: {problem}", .path.display())]
pub struct EncryptionError {
    path: PathBuf,
    phase: Phase,
    problem: String,
}

/// What was being done.
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
    /// Without a configuration: values are stored as they are (EN-3).
    pub fn none() -> Encryption {
        Encryption::default()
    }

    /// By the configuration in a file.
    ///
    /// # Errors
    /// [`EncryptionError`] with everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Encryption, EncryptionError> {
        let contents = contents_of(path)?;
        let active = ActiveConfig {
            rules: rules_of(path, &contents)?,
            digest: contents.digest,
            handed_out: BTreeMap::new(),
        };
        reload::tell_config(&active.digest, 1.0);
        Ok(Encryption {
            config: Arc::new(ReloadableConfig {
                path: Some(path.to_owned()),
                active: Mutex::new(active),
                looking: Mutex::default(),
                generations: Arc::default(),
            }),
        })
    }

    /// Counts the configurations that have been in force.
    pub fn generation(&self) -> u64 {
        self.config.generations.number()
    }

    /// Waits until the outcome of every write is known that another configuration than the
    /// present one has encrypted; the answer is that one's generation.
    pub async fn settled(&self) -> u64 {
        self.config.generations.settled().await
    }

    /// Resources that the configuration names and nobody has asked for: misspelt, perhaps.
    pub fn unknown_resources(&self) -> Vec<String> {
        let active = self.config.active.lock();
        let is_unknown = |name: &&config::ResourceName| {
            let place = (name.group.clone(), name.resource.clone());
            !active.handed_out.contains_key(&place)
        };
        let names = active.rules.named().filter(is_unknown);
        names.map(ToString::to_string).collect()
    }

    /// Says which resources the configuration names for nothing. To be called once all resources
    /// have their transformers; a reload does it by itself.
    pub fn warn_of_unknown_resources(&self) {
        for resource in self.unknown_resources() {
            tracing::warn!(
                resource,
                "{SETTING}: no such resource is served; is it misspelt?"
            );
        }
    }
}

impl TransformerSource for Encryption {
    /// What serves a resource, from now on and after each reload.
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

/// The transformer of one resource, whose choice a reload exchanges.
struct ResourceTransformer {
    /// `None`: no rule is about it.
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
        /// Prefixes, nonce and tag together are shorter, unless names of keys are long.
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
