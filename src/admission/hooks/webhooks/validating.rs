//! Webhooks that may refuse a write after its validation (HK-33).

use std::sync::Arc;
use std::time::Instant as Clock;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::WebhookSources;
use super::asking::{Asking, out_of_time, unconverted};
use super::candidates::Candidate;
use super::review::Facts;
use crate::admission::hooks::matching::RequestLabels;
use crate::admission::hooks::shown::Form;
use crate::admission::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::status::Status;

/// The plugin ValidatingAdmissionWebhook.
pub struct ValidatingWebhooks(Asking);

impl ValidatingWebhooks {
    /// Creates the plugin.
    pub fn new(sources: WebhookSources) -> ValidatingWebhooks {
        ValidatingWebhooks(Asking::new(sources, false))
    }

    async fn ask(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let asking = &self.0;
        let candidates = asking.candidates(attributes, object).await?;
        let labels = RequestLabels::of(attributes, object);
        let answers = Arc::default();
        let mut asked = Vec::new();
        for candidate in &*candidates.list {
            let webhook = &candidate.webhook;
            if !webhook.selectors.select(&labels, &candidates.namespace)? {
                continue;
            }
            let asked_in = candidate.asked.in_request(attributes);
            let form = Form::new(attributes, &asked_in);
            let shown = form.show_any(object).await.map_err(unconverted)?;
            let facts = asking.facts(webhook, &form, shown.as_ref(), &answers);
            if let Some(facts) = facts.await? {
                asked.push((candidate, facts));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        if Instant::now() >= attributes.deadline {
            return Err(Box::new(out_of_time()));
        }
        let calls = asked
            .into_iter()
            .map(|(candidate, facts)| self.call(attributes, candidate, facts));
        // All are called, so that each learns about the request.
        join_all(calls).await.into_iter().collect()
    }

    async fn call(
        &self,
        attributes: &Attributes<'_>,
        candidate: &Candidate,
        facts: Facts,
    ) -> Result<(), Box<Status>> {
        let began = Clock::now();
        let answer = self.0.call(attributes, &candidate.webhook, facts).await;
        self.0
            .outcome(attributes, candidate, answer.err(), began.elapsed())
    }
}

impl Plugin for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.handles(attributes)
    }

    fn waits(&self, attributes: &Attributes<'_>) -> bool {
        self.0.has_candidates(attributes)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for ValidatingWebhooks {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        self.ask(attributes, object).boxed()
    }
}
