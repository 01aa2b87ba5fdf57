//! Which providers serve which resource (EN-14): what the file says, ready for use.

use std::fmt;

use super::config::{ALL, Configuration, Entry, NamedSecret, ProviderConfig, ResourceName};
use super::prefix_transformers::{PrefixTransformers, ReadyKey, ReadyProvider, for_providers};

/// The rules of a configuration, in its order; none of no configuration.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<(ResourceName, Vec<ReadyProvider>)>,
}

/// A configuration that can be read but makes no sense as a whole.
#[derive(Debug)]
pub(super) enum RulesError {
    /// A resource after a rule that covers it already (EN-15).
    Masked {
        /// Where it stands.
        path: String,
        /// The resource.
        resource: ResourceName,
        /// The rule before it.
        by: ResourceName,
    },
    /// The cipher library takes no key of this length.
    Key(String),
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RulesError::Masked { path, resource, by } => write!(
                f,
                "{path}: {resource} is masked by {by} in an element before; put the more \
                 special rule first"
            ),
            RulesError::Key(path) => write!(f, "{path}: the cipher does not take this key"),
        }
    }
}

impl Rules {
    /// Makes a configuration ready for use.
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

    /// The wildcard rule that covers a resource; the same one again is no other, too.
    fn mask_of(&self, resource: &ResourceName) -> Option<ResourceName> {
        let names = self.rules.iter().map(|(name, _)| name);
        let mut masks = names.filter(|name| name.resource == ALL && name.covers(resource));
        masks.next().cloned()
    }

    /// The same resource in several elements gets the providers of all (EN-15).
    fn add(&mut self, resource: &ResourceName, providers: &[ReadyProvider]) {
        let found = self.rules.iter_mut().find(|(name, _)| name == resource);
        match found {
            Some((_, before)) => before.extend_from_slice(providers),
            None => self.rules.push((resource.clone(), providers.to_vec())),
        }
    }

    /// The choice for a resource: by its own rule, its group's, or that for all (EN-14).
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

    /// The resources that are named one by one.
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
