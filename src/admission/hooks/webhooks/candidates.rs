//! The webhooks whose rules are for a request.

use std::sync::Arc;

use super::configuration::{Configuration, Webhook};
use crate::admission::Attributes;
use crate::admission::hooks::Hooks;
use crate::admission::hooks::by_request::{ByRequest, Kept};
use crate::admission::hooks::matching::asked_in;
use crate::admission::hooks::shown::AskedIn;
use crate::api::resource::ResourceDefinition;

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
    pub version: Option<usize>,
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

impl Kept for Candidate {
    fn count(&self) -> usize {
        1
    }
}

/// The candidates of each kind of request that was seen.
#[derive(Debug, Default)]
pub(super) struct Candidates(ByRequest<u64, Candidate>);

impl Candidates {
    /// Returns the webhooks whose rules are for a request, in their order.
    pub(super) fn of(
        &self,
        hooks: &Hooks<Configuration>,
        attributes: &Attributes<'_>,
    ) -> Arc<[Candidate]> {
        self.0
            .get_or_find(hooks.generation, attributes, || found(hooks, attributes))
    }
}

fn found(hooks: &Hooks<Configuration>, attributes: &Attributes<'_>) -> Vec<Candidate> {
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
    candidates
}

fn place_of(version: &Arc<ResourceDefinition>, attributes: &Attributes<'_>) -> Option<usize> {
    let mut versions = attributes.versions.iter();
    // linear: a resource has a few versions.
    versions.position(|one| Arc::ptr_eq(one, version))
}
