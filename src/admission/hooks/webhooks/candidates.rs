//! The webhooks whose rules are for a kind of request. They are found once for each kind of request
//! and each state of the configurations, so that a request does not visit hundreds of webhooks that
//! are not for it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;

use super::configuration::{Configuration, Webhook};
use crate::admission::Attributes;
use crate::admission::hooks::matching::asked_in;
use crate::admission::hooks::shown::AskedIn;
use crate::admission::hooks::{Hooks, operation_name};
use crate::api::resource::ResourceDefinition;

/// The most kinds of requests that are remembered. When there are more, all are forgotten.
const KEPT_MAX: usize = 4096;

/// A webhook whose rules are for a request.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The name of its configuration.
    pub configuration: Arc<str>,
    /// Its place among all webhooks of the plugin.
    pub place: usize,
    /// The webhook.
    pub webhook: Arc<Webhook>,
    /// The place of the version in which it is asked among the versions of the resource, or `None`
    /// for the version of the request.
    version: Option<usize>,
}

impl Candidate {
    /// Returns the version in which the webhook is asked.
    pub(super) fn asked_in(&self, attributes: &Attributes<'_>) -> AskedIn {
        let version = self
            .version
            .and_then(|place| attributes.versions.get(place));
        version.cloned().map_or(AskedIn::Request, AskedIn::Other)
    }

    /// Returns a name of the webhook that no other one has.
    pub(super) fn unique_name(&self) -> String {
        format!(
            "{}/{}/{}",
            self.configuration, self.place, self.webhook.name
        )
    }
}

/// The candidates of each kind of request that was seen.
#[derive(Debug, Default)]
pub(super) struct Candidates(RwLock<HashMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    generation: u64,
    candidates: Arc<[Candidate]>,
}

impl Candidates {
    /// Returns the webhooks whose rules are for a request, in their order.
    pub(super) fn of(
        &self,
        hooks: &Hooks<Configuration>,
        attributes: &Attributes<'_>,
    ) -> Arc<[Candidate]> {
        let kind = kind_of_request(attributes);
        if let Some(kept) = self.0.read().get(&kind)
            && kept.generation == hooks.generation
        {
            return Arc::clone(&kept.candidates);
        }
        let candidates = found(hooks, attributes);
        let mut all = self.0.write();
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        let kept = Kept {
            generation: hooks.generation,
            candidates: Arc::clone(&candidates),
        };
        all.insert(kind, kept);
        candidates
    }
}

/// Returns everything of a request that rules look at. Rules of webhooks name no objects.
pub(in super::super) fn kind_of_request(attributes: &Attributes<'_>) -> String {
    let definition = attributes.definition;
    let mut kind = String::with_capacity(96);
    let scope = if attributes.namespace.is_some() {
        "N"
    } else {
        "C"
    };
    for part in [
        operation_name(&attributes.operation),
        scope,
        &definition.group,
        &definition.version,
        &definition.plural,
        attributes.subresource.unwrap_or_default(),
    ] {
        kind.push_str(part);
        kind.push('|');
    }
    for version in attributes.versions {
        // Writing to a String never fails.
        let _ = write!(kind, "{}/{}|", version.group, version.version);
    }
    kind
}

fn found(hooks: &Hooks<Configuration>, attributes: &Attributes<'_>) -> Arc<[Candidate]> {
    let mut place = 0;
    let mut candidates = Vec::new();
    for (name, configuration) in &hooks.by_name {
        let name: Arc<str> = Arc::from(&**name);
        for webhook in &configuration.webhooks {
            let asked = asked_in(&webhook.rules, webhook.match_policy, attributes);
            if let Some(asked) = asked {
                let version = match asked {
                    AskedIn::Request => None,
                    AskedIn::Other(version) => place_of(&version, attributes),
                };
                candidates.push(Candidate {
                    configuration: Arc::clone(&name),
                    place,
                    webhook: Arc::clone(webhook),
                    version,
                });
            }
            place += 1;
        }
    }
    candidates.into()
}

fn place_of(version: &Arc<ResourceDefinition>, attributes: &Attributes<'_>) -> Option<usize> {
    let mut versions = attributes.versions.iter();
    // linear: a resource has a few versions.
    versions.position(|one| Arc::ptr_eq(one, version))
}
