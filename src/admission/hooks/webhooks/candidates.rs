//! The webhooks whose rules are for a request.

use std::sync::Arc;

use serde_json::Value as Json;

use super::configuration::{Configuration, Webhook};
use crate::admission::Attributes;
use crate::admission::hooks::Hooks;
use crate::admission::hooks::by_request;
use crate::admission::hooks::matching::{AskedAt, asked_in};

/// A webhook whose rules are for a request.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The name of its configuration.
    pub configuration: Arc<str>,
    /// Its place among all webhooks of the plugin.
    pub place: usize,
    /// The webhook.
    pub webhook: Arc<Webhook>,
    /// The version in which it is asked.
    pub asked: AskedAt,
}

impl Candidate {
    /// Returns a name of the webhook that no other one has.
    pub(super) fn unique_name(&self) -> String {
        format!(
            "{}/{}/{}",
            self.configuration, self.place, self.webhook.name
        )
    }
}

impl by_request::Candidate for Candidate {
    fn count(&self) -> usize {
        1
    }

    fn selects_namespaces(&self) -> bool {
        !self.webhook.selectors.namespace_selector.is_empty()
    }

    fn in_namespace(&self, labels: Option<&Json>) -> Option<Candidate> {
        let selector = &self.webhook.selectors.namespace_selector;
        selector.selects_labels(labels).then(|| self.clone())
    }

    fn demanded_label(&self) -> Option<&str> {
        self.webhook.selectors.object_selector.demanded_label()
    }
}

/// Returns the webhooks whose rules are for a request, in their order.
pub(super) fn found(hooks: &Hooks<Configuration>, attributes: &Attributes<'_>) -> Vec<Candidate> {
    let mut place = 0;
    let mut candidates = Vec::new();
    for (name, configuration) in &hooks.by_name {
        let name: Arc<str> = Arc::from(&**name);
        for webhook in &configuration.webhooks {
            if let Some(asked) = asked_in(&webhook.rules, webhook.match_policy, attributes) {
                candidates.push(Candidate {
                    configuration: Arc::clone(&name),
                    place,
                    webhook: Arc::clone(webhook),
                    asked: AskedAt::of(&asked, attributes),
                });
            }
            place += 1;
        }
    }
    candidates
}
