//! Webhooks that may change an object before its validation (HK-23 to HK-29).

use std::sync::Arc;
use std::time::Instant as Clock;

use futures_util::FutureExt;
use serde_json::json;

use super::WebhookSources;
use super::answer::Answer;
use super::asking::{Asking, Stopped, has_object, unconverted};
use super::candidates::Candidate;
use super::review::Documents;
use crate::admission::hooks::answers::Answers;
use crate::admission::hooks::matching::RequestLabels;
use crate::admission::hooks::settings::ReinvocationPolicy;
use crate::admission::hooks::shown::Form;
use crate::admission::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::deep;
use crate::api::object::Object;
use crate::api::patch::{HookPatch, HookPatchError};
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;

const NAME: &str = "MutatingAdmissionWebhook";

/// The plugin MutatingAdmissionWebhook.
pub struct MutatingWebhooks(Asking);

impl MutatingWebhooks {
    /// Creates the plugin.
    pub fn new(sources: WebhookSources) -> MutatingWebhooks {
        MutatingWebhooks(Asking::new(sources, true))
    }

    async fn ask_all(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Box<Status>> {
        let candidates = self.0.candidates(attributes, object.as_deref()).await?;
        if candidates.list.is_empty() {
            return Ok(());
        }
        let is_again = attributes.rounds.is_again();
        if let (true, Some(object)) = (is_again, object.as_deref()) {
            let mut notes = attributes.rounds.reinvocations();
            notes.of(NAME).begin_again(object);
        }
        let answers = Arc::default();
        let mut rest = candidates.list.all();
        loop {
            // A webhook may change the labels by which the next ones are selected.
            let labels = RequestLabels::of(attributes, object.as_deref(), &candidates.namespace);
            let selected = rest.find_map(|candidate| {
                let is_selected = candidate.webhook.selectors.select(&labels);
                is_selected.map(|is| is.then_some(candidate)).transpose()
            });
            let Some(candidate) = selected.transpose()? else {
                break;
            };
            let asked_in = candidate.asked.in_request(attributes);
            let form = Form::new(attributes, &asked_in);
            let name = candidate.unique_name();
            if is_again && !attributes.rounds.reinvocations().of(NAME).runs_again(&name) {
                continue;
            }
            let asking = self.ask(candidate, &form, object.as_deref_mut(), &answers);
            let asked = asking.await?;
            let mut notes = attributes.rounds.reinvocations();
            if asked == Asked::Changed {
                notes.of(NAME).changed();
                attributes.rounds.changed();
            }
            let may_run_again = candidate.webhook.reinvocation_policy;
            if asked != Asked::No && may_run_again == ReinvocationPolicy::IfNeeded {
                notes.of(NAME).has_run(&name);
            }
        }
        if let Some(object) = object {
            attributes.rounds.reinvocations().of(NAME).leave(object);
        }
        Ok(())
    }

    async fn ask(
        &self,
        candidate: &Candidate,
        form: &Form<'_>,
        object: Option<&mut Object>,
        answers: &Arc<Answers>,
    ) -> Result<Asked, Box<Status>> {
        let (attributes, webhook) = (form.attributes(), &candidate.webhook);
        let shown = form.show_any(object.as_deref()).await;
        let shown = shown.map_err(unconverted)?;
        let documents = Documents::new(form, shown.as_ref());
        let documents = documents.await.map_err(unconverted)?;
        let facts = self.0.facts(webhook, form, documents, answers);
        let Some(facts) = facts.await? else {
            return Ok(Asked::No);
        };
        let began = Clock::now();
        let answer = self.0.call(attributes, webhook, facts).await;
        let changed = match answer {
            Ok(answer) => {
                let changing = self.changed(attributes, candidate, &answer, form, shown);
                changing.await
            }
            Err(stopped) => Err(stopped),
        };
        let took = began.elapsed();
        let changed = match changed {
            Ok(changed) => {
                self.0.outcome(attributes, candidate, None, took)?;
                changed
            }
            Err(stopped) => {
                let outcome = self.0.outcome(attributes, candidate, Some(stopped), took);
                annotate_mutation(attributes, candidate, false);
                outcome?;
                None
            }
        };
        annotate_mutation(attributes, candidate, changed.is_some());
        match (changed, object) {
            (Some(changed), Some(object)) => {
                form.take(changed, object).await.map_err(unconverted)?;
                Ok(Asked::Changed)
            }
            _ => Ok(Asked::Unchanged),
        }
    }

    /// Returns the object of an answer, if it differs from the one that was sent.
    async fn changed(
        &self,
        attributes: &Attributes<'_>,
        candidate: &Candidate,
        answer: &Answer,
        form: &Form<'_>,
        shown: Option<Object>,
    ) -> Result<Option<Object>, Stopped> {
        if answer.patch.is_empty() {
            return Ok(None);
        }
        let failed = |why: String| Stopped::Call(why);
        if answer.patch_type != "JSONPatch" {
            let given = go_quote(&answer.patch_type);
            return Err(failed(format!("unsupported patch type {given}")));
        }
        let parsing = deep::retry(|| HookPatch::parse(&answer.patch));
        let patch = parsing.await.map_err(|why| {
            failed(format!(
                "received undecodable patch in webhook response: {why}"
            ))
        })?;
        if patch.is_empty() {
            return Ok(None);
        }
        let own = |status: Status| Stopped::Own(Box::new(status));
        let Some(sent) = shown.filter(|_| has_object(&attributes.operation)) else {
            let name = go_quote(&candidate.webhook.name);
            return Err(own(Status::internal(format!(
                "admission webhook {name} attempted to modify the object, which is not supported \
                 for this operation"
            ))));
        };
        annotate_patch(attributes, candidate, &answer.patch);
        let kind = form.kind();
        let applying = deep::retry(|| patch.apply(sent.clone(), kind));
        let patched = applying.await.map_err(|error| {
            own(match error {
                HookPatchError::Failed(why) => Status::internal(why),
                HookPatchError::TooLarge(_) => Status::request_too_large_because(error),
            })
        })?;
        let completed = form.completed(patched);
        Ok((completed != sent).then_some(completed))
    }
}

/// Whether a webhook was asked, and has changed the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Unchanged,
    Changed,
}

/// The end of the names of annotations about a call (HK-97).
fn at(attributes: &Attributes<'_>, candidate: &Candidate) -> String {
    let round = u8::from(attributes.rounds.is_again());
    format!("round_{round}_index_{}", candidate.place)
}

fn annotate_mutation(attributes: &Attributes<'_>, candidate: &Candidate, is_mutated: bool) {
    if attributes.annotations.is_none() {
        return;
    }
    let key = format!(
        "mutation.webhook.admission.k8s.io/{}",
        at(attributes, candidate)
    );
    attributes.annotate(key, || {
        json!({
            "configuration": &*candidate.configuration,
            "webhook": candidate.webhook.name,
            "mutated": is_mutated,
        })
        .to_string()
    });
}

fn annotate_patch(attributes: &Attributes<'_>, candidate: &Candidate, patch: &[u8]) {
    let Some(annotations) = attributes.annotations.filter(|one| one.has_bodies()) else {
        return;
    };
    let key = format!(
        "patch.webhook.admission.k8s.io/{}",
        at(attributes, candidate)
    );
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap_or_default();
    let text = json!({
        "configuration": &*candidate.configuration,
        "webhook": candidate.webhook.name,
        "patch": patch,
        "patchType": "JSONPatch",
    });
    annotations.add_of_hook(key, text.to_string());
}

impl Plugin for MutatingWebhooks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.handles(attributes)
    }

    fn waits(&self, attributes: &Attributes<'_>) -> bool {
        self.0.has_candidates(attributes)
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for MutatingWebhooks {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        self.ask_all(attributes, object).boxed()
    }

    /// Changes are noted in the rounds.
    fn changes(&self) -> bool {
        false
    }
}
