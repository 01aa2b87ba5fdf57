//! Chooses the providers of each resource (EN-14).

use std::fmt;

use super::config::{ALL, Configuration, Entry, NamedSecret, ProviderConfig, ResourceName};
use super::prefix_transformers::{PrefixTransformers, ReadyKey, ReadyProvider, for_providers};

/// The rules of a configuration, in its order. Empty without a configuration.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<(ResourceName, Vec<ReadyProvider>)>,
}

/// The reason why a parsed configuration is not valid as a whole.
#[derive(Debug)]
pub(super) enum RulesError {
    /// A resource that an earlier rule covers already (EN-15).
    Masked {
        /// Its path in the file.
        path: String,
        /// The resource.
        resource: ResourceName,
        /// The earlier rule.
        by: ResourceName,
    },
    /// The cipher library does not accept a key of this length.
    Key(String),
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RulesError::Masked { path, resource, by } => write!(
                f,
                "{path}: {resource} is masked by {by} in an earlier element; put the more \
                 special rule first"
            ),
            RulesError::Key(path) => write!(f, "{path}: the cipher does not accept this key"),
        }
    }
}

impl Rules {
    /// Prepares a configuration for use.
    pub(super) fn new(configuration: &Configuration) -> Result<Rules, RulesError> {
        let mut rules = Rules::default();
        for (index, entry) in configuration.entries.iter().enumerate() {
            let path = format!("resources[{index}]");
            let providers = ready(&path, entry)?;
            for (name_index, resource) in entry.resources.iter().enumerate() {
                if let Some(by) = rules.mask_of(resource) {
                    return Err(RulesError::Masked {
                        path: format!("{path}.resources[{name_index}]"),
                        resource: resource.clone(),
                        by,
                    });
                }
                rules.add(resource, &providers);
            }
        }
        Ok(rules)
    }

    /// The earlier wildcard rule that covers a resource. An equal wildcard covers it too.
    fn mask_of(&self, resource: &ResourceName) -> Option<ResourceName> {
        let names = self.rules.iter().map(|(name, _)| name);
        let mut masks = names.filter(|name| name.resource == ALL && name.covers(resource));
        masks.next().cloned()
    }

    /// Adds a rule. A resource in several elements gets the providers of all (EN-15).
    fn add(&mut self, resource: &ResourceName, providers: &[ReadyProvider]) {
        let found = self.rules.iter_mut().find(|(name, _)| name == resource);
        match found {
            Some((_, before)) => before.extend_from_slice(providers),
            None => self.rules.push((resource.clone(), providers.to_vec())),
        }
    }

    /// The transformers of a resource: by its own rule, by its group's, or by the rule for all
    /// (EN-14).
    pub(super) fn transformers_for(&self, group: &str, plural: &str) -> Option<PrefixTransformers> {
        let own = ResourceName {
            resource: plural.to_owned(),
            group: group.to_owned(),
        };
        let metrics_name = own.to_string();
        let candidates = [own, ResourceName::all_of(group), ResourceName::all_of(ALL)];
        let mut found = candidates
            .iter()
            .filter_map(|wanted| self.rules.iter().find(|(name, _)| name == wanted));
        let (_, providers) = found.next()?;
        Some(for_providers(&metrics_name, providers))
    }

    /// The resources that the configuration names individually.
    pub(super) fn named(&self) -> impl Iterator<Item = &ResourceName> {
        let names = self.rules.iter().map(|(name, _)| name);
        names.filter(|name| name.resource != ALL)
    }
}

fn ready(path: &str, entry: &Entry) -> Result<Vec<ReadyProvider>, RulesError> {
    let providers = entry.providers.iter().enumerate();
    providers
        .map(|(index, provider)| match provider {
            ProviderConfig::Identity => Ok(ReadyProvider::Identity),
            ProviderConfig::Cipher(algorithm, keys) => {
                let path = format!("{path}.providers[{index}].{}.keys", algorithm.member());
                let keys: Result<Vec<_>, _> = keys
                    .iter()
                    .enumerate()
                    .map(|(index, key): (usize, &NamedSecret)| {
                        ReadyKey::new(*algorithm, key)
                            .ok_or_else(|| RulesError::Key(format!("{path}[{index}].secret")))
                    })
                    .collect();
                Ok(ReadyProvider::Cipher(*algorithm, keys?))
            }
        })
        .collect()
}
