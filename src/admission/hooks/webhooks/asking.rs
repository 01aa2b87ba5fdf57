//! One question to one webhook: whether it is asked, the call, and what went wrong.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::{Answer, BadAnswer, read, refusal};
use super::candidates::{Candidate, found};
use super::configuration::{Configuration, Webhook};
use super::metrics::{Called, ErrorType, Measured};
use super::review::{Documents, Facts};
use super::{WebhookSources, metrics};
use crate::admission::hooks::answers::{Answers, OfUser, resource_question};
use crate::admission::hooks::by_request::{ByRequest, Candidates};
use crate::admission::hooks::client::{PostError, ReviewVersion};
use crate::admission::hooks::conditions::Met;
use crate::admission::hooks::expression::Variables;
use crate::admission::hooks::failure_lines::FailureLines;
use crate::admission::hooks::measured_conditions::{ConditionLabels, HookKind, evaluate};
use crate::admission::hooks::settings::FailurePolicy;
use crate::admission::hooks::shown::Form;
use crate::admission::hooks::{Hooks, may_be_hooked};
use crate::admission::{Attributes, Operation};
use crate::api::large::{is_large, leave_thread};
use crate::api::object::Object;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::api::{deep, names};
use crate::auth::Omitted;

/// The beginnings of texts about failed calls (HK-36).
const UNUSABLE: &str = "could not get REST client";
const FAILED: &str = "failed to call webhook";
const INVALID: &str = "received invalid webhook response";
const STAGES: [&str; 3] = [UNUSABLE, FAILED, INVALID];

/// The webhooks of one plugin.
pub(super) struct Asking {
    pub(super) sources: WebhookSources,
    kept: ByRequest<u64, Candidate>,
    pub(super) is_mutating: bool,
    lines: FailureLines,
}

/// A sort of failure of a webhook, for the log.
#[derive(Clone, Copy, Debug, Hash)]
enum Sort {
    Conditions,
    Annotations,
    /// The call, by the part of it that failed.
    Call(bool, &'static str),
}

/// The reason why a webhook stops a request.
#[derive(Clone, Debug)]
pub(super) enum Stopped {
    /// The call failed, for this reason.
    Call(String),
    /// The webhook refused the request.
    Refused(Box<Status>),
    /// The request can't be carried out with the answer, or the webhook can't be asked about it.
    Own(Box<Status>),
}

impl Asking {
    pub(super) fn new(sources: WebhookSources, is_mutating: bool) -> Asking {
        Asking {
            sources,
            kept: ByRequest::default(),
            is_mutating,
            lines: FailureLines::default(),
        }
    }

    /// Whether there may be webhooks for such a request. The first state of the configurations
    /// counts as such until it is known.
    pub(super) fn handles(&self, attributes: &Attributes<'_>) -> bool {
        may_be_hooked(attributes)
            && self
                .sources
                .configurations
                .newest()
                .is_none_or(|hooks| !hooks.by_name.is_empty())
    }

    /// Whether the rules of a webhook are for such a request.
    pub(super) fn has_candidates(&self, attributes: &Attributes<'_>) -> bool {
        let hooks = self.sources.configurations.newest();
        hooks.is_none_or(|hooks| {
            let find = || found(&hooks, attributes);
            let candidates = self.kept.by_rules(hooks.generation, attributes, find);
            !candidates.is_empty()
        })
    }

    /// Returns the webhooks that may be for a request.
    ///
    /// # Errors
    /// 403 if the configurations are not known yet.
    pub(super) async fn candidates(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Candidates<Candidate>, Box<Status>> {
        let hooks = match self.sources.configurations.newest() {
            Some(hooks) => hooks,
            None => self.first(attributes, object).await?,
        };
        let (namespaces, find) = (&*self.sources.namespaces, || found(&hooks, attributes));
        let candidates = self.kept.of(hooks.generation, attributes, namespaces, find);
        Ok(candidates.await)
    }

    async fn first(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<Arc<Hooks<Configuration>>, Box<Status>> {
        self.sources.configurations.filled().await;
        let known = self.sources.configurations.newest();
        known.ok_or_else(|| attributes.forbidden(object, "not yet ready to handle request"))
    }

    /// Returns the facts for a webhook if it is asked: the request meets its conditions.
    /// `documents` are the objects in the form of the webhook.
    ///
    /// # Errors
    /// 403 for conditions that fail, 500 for a conversion that fails.
    pub(super) async fn facts(
        &self,
        webhook: &Webhook,
        form: &Form<'_>,
        documents: Arc<Documents>,
        answers: &Arc<Answers>,
    ) -> Result<Option<Facts>, Box<Status>> {
        let attributes = form.attributes();
        let facts = Facts::new(form, documents);
        let conditions = webhook.conditions();
        if conditions.is_empty() {
            return Ok(Some(facts));
        }
        let asker = OfUser {
            authorizer: &*self.sources.authorizer,
            user: attributes.user,
        };
        let of_conditions = facts.of_conditions(answers, resource_question(attributes));
        let none = Variables::new();
        let labels = ConditionLabels {
            name: &webhook.name,
            kind: match self.is_mutating {
                true => HookKind::MutatingWebhook,
                false => HookKind::ValidatingWebhook,
            },
            operation: attributes.operation.name(),
        };
        let met = evaluate(&labels, conditions, &none, &of_conditions, &asker).await;
        match met {
            Met::All => Ok(Some(facts)),
            Met::Failed(why) if webhook.failure_policy == FailurePolicy::Fail => {
                if let Some((why, of)) = self.line(webhook, Sort::Conditions, &why) {
                    let (webhook, untold, within) = (&webhook.name, of.count, of.within);
                    tracing::warn!(
                        webhook,
                        why,
                        untold,
                        within,
                        "conditions of a webhook failed"
                    );
                }
                let definition = attributes.definition;
                let status = Status::forbidden(definition, attributes.name, &why);
                Err(Box::new(status))
            }
            Met::NotAll | Met::Failed(_) => {
                labels.excluded();
                Ok(None)
            }
        }
    }

    /// Calls a webhook, and publishes its warnings and annotations.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) async fn call(
        &self,
        attributes: &Attributes<'_>,
        webhook: &Webhook,
        facts: Facts,
    ) -> Result<Answer, Stopped> {
        let name = go_quote(&webhook.name);
        if attributes.operation.is_dry_run() && !webhook.allows_dry_run() {
            let text = format!("admission webhook {name} does not support dry run");
            return Err(Stopped::Own(Box::new(Status::bad_request(text))));
        }
        let Some(version) = ReviewVersion::first_known(&webhook.admission_review_versions) else {
            let why = "could not create admission objects: webhook does not accept known \
                       AdmissionReview versions (v1, v1beta1)";
            return Err(Stopped::Call(why.to_owned()));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let body = facts.review(version, &uid);
        let deadline = attributes.deadline.min(Instant::now() + webhook.timeout());
        let posting = self
            .sources
            .transport
            .post(&webhook.client_config, body, deadline);
        let body = posting.await.map_err(|error| {
            Stopped::Call(match error {
                PostError::Unusable(why) => format!("{UNUSABLE}: {why}"),
                PostError::Failed(why) => format!("{FAILED}: {why}"),
            })
        })?;
        if is_large(&body) {
            // Reading it, and its patch, would hold up the watches of this thread.
            leave_thread().await;
        }
        let reading = deep::retry(|| read(&body, version, &uid, self.is_mutating));
        let answer = reading.await.map_err(|bad| {
            Stopped::Call(match bad {
                BadAnswer::Unreadable(why) => format!("{FAILED}: {why}"),
                BadAnswer::Invalid(why) => format!("{INVALID}: {why}"),
            })
        })?;
        self.publish(attributes, webhook, &answer);
        for warning in &answer.warnings {
            if is_shown(warning) {
                attributes.warnings.add(warning.as_str());
            }
        }
        match answer.is_allowed {
            true => Ok(answer),
            false => Err(Stopped::Refused(Box::new(refusal(
                &webhook.name,
                &answer.result,
            )))),
        }
    }

    /// Measures the outcome of a call, and returns what it means for the request: `Ok` if it goes
    /// on.
    ///
    /// # Errors
    /// The Status that refuses the request (HK-31, HK-35, HK-42).
    pub(super) fn outcome(
        &self,
        attributes: &Attributes<'_>,
        candidate: &Candidate,
        stopped: Option<Stopped>,
        took: Duration,
    ) -> Result<(), Box<Status>> {
        let webhook = &candidate.webhook;
        let measured = self.measured(webhook, attributes);
        let ignores = webhook.failure_policy == FailurePolicy::Ignore;
        let called = |is_rejected, code, error| Called {
            took,
            is_rejected,
            code,
            error,
        };
        match stopped {
            None => {
                metrics::called(&measured, &called(false, 200, None));
                Ok(())
            }
            Some(Stopped::Refused(status)) => {
                let error = Some(ErrorType::NoError);
                metrics::called(&measured, &called(true, status.code, error));
                Err(status)
            }
            Some(Stopped::Own(status)) => {
                let error = Some(ErrorType::Internal);
                metrics::called(&measured, &called(true, 0, error));
                Err(status)
            }
            Some(Stopped::Call(why)) => {
                let error = (!ignores).then_some(ErrorType::Calling);
                metrics::called(&measured, &called(!ignores, 0, error));
                let text = format!("failed calling webhook {}: {why}", go_quote(&webhook.name));
                self.log_failed(webhook, &why);
                if !ignores {
                    return Err(Box::new(Status::internal(text)));
                }
                metrics::failed_open(&measured);
                self.annotate_failed_open(attributes, candidate);
                match Instant::now() >= attributes.deadline {
                    true => Err(Box::new(out_of_time())),
                    false => Ok(()),
                }
            }
        }
    }

    /// Logs a failed call.
    fn log_failed(&self, webhook: &Webhook, why: &str) {
        let goes_on = webhook.failure_policy == FailurePolicy::Ignore;
        let stage = STAGES.into_iter().find(|stage| why.starts_with(stage));
        let sort = Sort::Call(goes_on, stage.unwrap_or_default());
        let Some((why, of)) = self.line(webhook, sort, why) else {
            return;
        };
        let (webhook, untold, within) = (&webhook.name, of.count, of.within);
        match goes_on {
            false => tracing::warn!(webhook, why, untold, within, "a call of a webhook failed"),
            true => tracing::warn!(
                webhook,
                why,
                untold,
                within,
                "a call of a webhook failed, and its request goes on by its failurePolicy"
            ),
        }
    }

    /// Returns what to log about a failure of a webhook, if it gets a line.
    fn line<'w>(&self, webhook: &Webhook, sort: Sort, why: &'w str) -> Option<(&'w str, Omitted)> {
        self.lines.turn((&webhook.name, sort), why)
    }

    /// Publishes the annotations of an answer in the audit events: those whose keys are valid names
    /// (HK-97).
    fn publish(&self, attributes: &Attributes<'_>, webhook: &Webhook, answer: &Answer) {
        for (key, value) in &answer.audit_annotations {
            let name = format!("{}/{key}", webhook.name);
            if names::qualified_name(&name).is_empty() {
                attributes.annotate_by_hook(name, || value.clone());
            } else if let Some((key, of)) = self.line(webhook, Sort::Annotations, key) {
                let (webhook, untold, within) = (&webhook.name, of.count, of.within);
                tracing::warn!(
                    webhook,
                    key,
                    untold,
                    within,
                    "an audit annotation has an invalid key"
                );
            }
        }
    }

    fn measured<'m>(&self, webhook: &'m Webhook, attributes: &Attributes<'m>) -> Measured<'m> {
        Measured {
            name: &webhook.name,
            is_mutating: self.is_mutating,
            operation: attributes.operation.name(),
        }
    }

    fn annotate_failed_open(&self, attributes: &Attributes<'_>, candidate: &Candidate) {
        let (kind, round) = match self.is_mutating {
            true => ("mutation", u8::from(attributes.rounds.is_again())),
            false => ("validating", 0),
        };
        let place = candidate.place;
        let key =
            format!("failed-open.{kind}.webhook.admission.k8s.io/round_{round}_index_{place}");
        attributes.annotate(key, || candidate.webhook.name.clone());
    }
}

/// The Status of a request whose objects can't be converted for a webhook (HK-15).
pub(super) fn unconverted(why: String) -> Box<Status> {
    Box::new(Status::internal(why))
}

/// The Status of a request whose time is over (HK-42).
pub(super) fn out_of_time() -> Status {
    Status::timeout("request did not complete within requested timeout")
}

/// Whether an operation has an object that a patch could change.
pub(super) fn has_object(operation: &Operation<'_>) -> bool {
    !matches!(operation, Operation::Delete(_))
}

/// Whether a warning can be sent: it is not empty and has no control characters (HK-32).
fn is_shown(warning: &str) -> bool {
    !warning.is_empty() && !warning.chars().any(char::is_control)
}
