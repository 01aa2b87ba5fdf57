//! Webhooks that may refuse a write after its validation (HK-33).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant as Clock;

use futures_util::future::ready;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;

use super::WebhookSources;
use super::asking::{Asking, out_of_time, unconverted};
use super::candidates::Candidate;
use super::review::{Documents, Facts};
use crate::admission::hooks::matching::{AskedAt, RequestLabels};
use crate::admission::hooks::shown::Form;
use crate::admission::{Admitted, Attributes, Plugin, ValidatingPlugin};
use crate::api::object::Object;
use crate::api::status::Status;

/// The most bytes of objects in the calls of one request at a time, if it has many.
const BYTES_AT_A_TIME: usize = 64 << 20;

/// The numbers of calls at a time: that of large objects, and the most (D-109).
const CALLS_AT_A_TIME: (usize, usize) = (16, 256);

/// Returns how many of these webhooks are called at a time.
fn calls_at_a_time(asked: &[(&Candidate, Facts)]) -> usize {
    let bytes = || asked.first().map_or(0, |(_, facts)| facts.object_bytes());
    at_a_time(asked.len(), bytes)
}

/// Returns how many of so many calls, about objects of so many bytes, are made at a time.
fn at_a_time(calls: usize, bytes: impl FnOnce() -> usize) -> usize {
    let (of_large, most) = CALLS_AT_A_TIME;
    if calls <= of_large {
        return of_large;
    }
    (BYTES_AT_A_TIME / bytes().max(1)).clamp(of_large, most)
}

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
        let labels = RequestLabels::of(attributes, object, &candidates.namespace);
        let answers = Arc::default();
        let mut made: HashMap<AskedAt, Arc<Documents>> = HashMap::new();
        let mut asked = Vec::new();
        for candidate in candidates.list.for_labels(&labels) {
            let webhook = &candidate.webhook;
            if !webhook.selectors.select(&labels)? {
                continue;
            }
            let asked_in = candidate.asked.in_request(attributes);
            let form = Form::new(attributes, &asked_in);
            let documents = match made.get(&candidate.asked) {
                Some(documents) => Arc::clone(documents),
                None => {
                    let shown = form.show_any(object).await.map_err(unconverted)?;
                    let documents = Documents::new(&form, shown.as_ref());
                    let documents = documents.await.map_err(unconverted)?;
                    made.insert(candidate.asked, Arc::clone(&documents));
                    documents
                }
            };
            let facts = asking.facts(webhook, &form, documents, &answers);
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
        let at_a_time = calls_at_a_time(&asked);
        let mut calls = Vec::with_capacity(asked.len());
        for (place, (candidate, facts)) in asked.into_iter().enumerate() {
            calls.push(async move {
                let answer = self.call(attributes, candidate, facts).await;
                answer.err().map(|status| (place, status))
            });
        }
        // All are called, so that each learns about the request.
        let refusals = stream::iter(calls).buffer_unordered(at_a_time);
        let refusals: Vec<_> = refusals.filter_map(ready).collect().await;
        let first = refusals.into_iter().min_by_key(|(place, _)| *place);
        first.map_or(Ok(()), |(_, status)| Err(status))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// D-109.
    #[test]
    fn many_calls_about_large_objects_are_made_in_turn_hk_33() {
        for (calls, bytes, expected) in [
            (16, usize::MAX, 16),
            (17, 0, 256),
            (10_000, 1_000, 256),
            (10_000, 1 << 20, 64),
            (10_000, 3 << 20, 21),
            (10_000, usize::MAX, 16),
        ] {
            assert_eq!(at_a_time(calls, || bytes), expected, "{calls} {bytes}");
        }
    }
}
