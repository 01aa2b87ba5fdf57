//! The authorizer that asks a webhook (AC-37 to AC-39).

use std::future::ready;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::super::{Attributes, Authorization, Authorizer, Decision, Rules};
use super::access_review::Question;
use super::answer::{CallError, ReviewKind};
use super::call::Caller;
use super::conditions::{Match, MatchConditions};
use super::metrics;
use super::review_version::ReviewVersion;
use crate::api::user_info::UserInfo;
use crate::auth::kept::{Kept, Key};

/// The most answers that are kept.
const KEPT_MAX: usize = 8192;

/// Answers with longer reasons are not kept.
const REASON_BYTES_MAX: usize = 4 << 10;

/// The error about an answer that says both.
const BOTH: &str = "webhook subject access review returned both allow and deny response";

/// The meaning of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Others decide, and the error counts if nobody allows the request.
    NoOpinion,
    /// The request is refused.
    Deny,
}

/// How a webhook decides.
#[derive(Debug)]
pub struct WebhookSettings {
    /// The name of the authorizer, for metrics and logs.
    pub name: String,
    /// The version of the reviews that it gets.
    pub version: ReviewVersion,
    /// How long it is remembered that a request is allowed; zero for not at all.
    pub authorized_ttl: Duration,
    /// How long other answers are remembered.
    pub unauthorized_ttl: Duration,
    /// The meaning of a failed call.
    pub failure_policy: FailurePolicy,
    /// The conditions under which it is asked.
    pub conditions: MatchConditions,
}

/// Asks a webhook about each request.
pub struct WebhookAuthorizer {
    settings: WebhookSettings,
    caller: Caller,
    kept: Mutex<Kept<Verdict>>,
}

/// The answer of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    is_allowed: bool,
    is_denied: bool,
    reason: Box<str>,
}

impl Verdict {
    fn of(status: &Value) -> Verdict {
        let is = |name| status.get(name).and_then(Value::as_bool) == Some(true);
        let reason = status.get("reason").and_then(Value::as_str);
        Verdict {
            is_allowed: is("allowed"),
            is_denied: is("denied"),
            reason: reason.unwrap_or_default().into(),
        }
    }

    fn into_authorization(self) -> Authorization {
        let (decision, error) = match (self.is_denied, self.is_allowed) {
            (true, true) => (Decision::Deny, Some(BOTH.to_owned())),
            (true, false) => (Decision::Deny, None),
            (false, true) => (Decision::Allow, None),
            (false, false) => (Decision::NoOpinion, None),
        };
        Authorization {
            decision,
            reason: String::from(self.reason).into(),
            error,
        }
    }
}

impl WebhookAuthorizer {
    /// Asks the webhook that `caller` calls.
    pub fn new(settings: WebhookSettings, caller: Caller) -> WebhookAuthorizer {
        metrics::describe();
        WebhookAuthorizer {
            settings,
            caller,
            kept: Mutex::new(Kept::new(KEPT_MAX)),
        }
    }

    /// The decision when the webhook cannot be asked.
    fn failed(&self, error: String) -> Authorization {
        Authorization {
            decision: match self.settings.failure_policy {
                FailurePolicy::NoOpinion => Decision::NoOpinion,
                FailurePolicy::Deny => Decision::Deny,
            },
            reason: "".into(),
            error: Some(error),
        }
    }

    /// Returns a decision if the conditions already make one.
    fn by_conditions(&self, question: &Question<'_>) -> Option<Authorization> {
        if self.settings.conditions.is_empty() {
            return None;
        }
        let name = &self.settings.name;
        let begin = Instant::now();
        let matched = self.settings.conditions.evaluate(&question.to_value());
        metrics::evaluated(name, begin.elapsed());
        match matched {
            Match::Asked => None,
            Match::Excluded => {
                metrics::excluded(name);
                Some(Authorization::allow_if(false))
            }
            Match::Failed(error) => {
                metrics::conditions_failed(name);
                Some(self.failed(error))
            }
        }
    }

    async fn decide(&self, attributes: &Attributes<'_>) -> Authorization {
        let question = Question::of(attributes);
        if let Some(decided) = self.by_conditions(&question) {
            return decided;
        }
        let key: Key = Sha256::digest(question.key()).into();
        let kept = self.kept.lock().get(&key, Instant::now());
        if let Some(verdict) = kept {
            return verdict.into_authorization();
        }
        match self.ask(&question).await {
            Ok(verdict) => {
                if question.may_be_kept() && verdict.reason.len() <= REASON_BYTES_MAX {
                    let time = match verdict.is_allowed {
                        true => self.settings.authorized_ttl,
                        false => self.settings.unauthorized_ttl,
                    };
                    let mut kept = self.kept.lock();
                    kept.keep(key, verdict.clone(), time, Instant::now());
                }
                verdict.into_authorization()
            }
            Err(error) => {
                let name = &self.settings.name;
                tracing::error!(
                    webhook = name,
                    error = error.text,
                    "a webhook could not be asked for authorization"
                );
                if self.settings.failure_policy == FailurePolicy::NoOpinion {
                    metrics::failed_open(name, &error);
                }
                self.failed(error.text)
            }
        }
    }

    async fn ask(&self, question: &Question<'_>) -> Result<Verdict, CallError> {
        let version = self.settings.version;
        let form = ReviewKind::Access.in_version(version);
        let begin = || metrics::Counted::begin(&self.settings.name);
        let status = self.caller.status(question.body(version), form, begin);
        Ok(Verdict::of(&status.await?))
    }
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        self.decide(attributes).boxed()
    }

    fn rules_for<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        let why = "webhook authorizer does not support user rule resolution";
        ready(Rules::unlisted(why)).boxed()
    }
}

#[cfg(test)]
mod tests;
