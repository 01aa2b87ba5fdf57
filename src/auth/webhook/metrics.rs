//! The metrics of webhooks for authorization (AC-75).

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use tokio::time::Instant;

use super::answer::CallError;
use super::call::Attempt;

const EVALUATIONS: &str = "apiserver_authorization_webhook_evaluations_total";
const SECONDS: &str = "apiserver_authorization_webhook_duration_seconds";
const FAIL_OPEN: &str = "apiserver_authorization_webhook_evaluations_fail_open_total";
const CONDITION_ERRORS: &str = "apiserver_authorization_match_condition_evaluation_errors_total";
const EXCLUSIONS: &str = "apiserver_authorization_match_condition_exclusions_total";
const CONDITION_SECONDS: &str = "apiserver_authorization_match_condition_evaluation_seconds";

/// Describes the metrics.
pub(super) fn describe() {
    describe_counter!(
        EVALUATIONS,
        "Attempts to ask a webhook for authorization, by name and result"
    );
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time of attempts to ask a webhook for authorization, by name and result"
    );
    describe_counter!(
        FAIL_OPEN,
        "Requests that went on to other authorizers because a webhook failed, by name and result"
    );
    describe_counter!(
        CONDITION_ERRORS,
        "Requests for which match conditions of an authorizer failed, by type and name"
    );
    describe_counter!(
        EXCLUSIONS,
        "Requests that match conditions kept from an authorizer, by type and name"
    );
    describe_histogram!(
        CONDITION_SECONDS,
        Unit::Seconds,
        "Time to evaluate the match conditions of an authorizer, by type and name"
    );
}

/// The result of a call as metrics name it.
fn result_of(error: Option<&CallError>) -> &'static str {
    match error {
        None => "success",
        Some(error) if error.is_late => "timeout",
        Some(_) => "error",
    }
}

/// An attempt of a webhook that counts itself.
pub(super) struct Counted {
    name: String,
    begin: Instant,
    result: &'static str,
}

impl Counted {
    pub(super) fn begin(name: &str) -> Counted {
        Counted {
            name: name.to_owned(),
            begin: Instant::now(),
            result: "canceled",
        }
    }
}

impl Attempt for Counted {
    fn ended(mut self, error: Option<&CallError>) {
        self.result = result_of(error);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let labels = [
            ("name", self.name.clone()),
            ("result", self.result.to_owned()),
        ];
        counter!(EVALUATIONS, &labels).increment(1);
        histogram!(SECONDS, &labels).record(self.begin.elapsed());
    }
}

/// Counts a request that went on although the webhook failed.
pub(super) fn failed_open(name: &str, error: &CallError) {
    let labels = [
        ("name", name.to_owned()),
        ("result", result_of(Some(error)).to_owned()),
    ];
    counter!(FAIL_OPEN, &labels).increment(1);
}

fn of_webhook(name: &str) -> [(&'static str, String); 2] {
    [("type", "Webhook".to_owned()), ("name", name.to_owned())]
}

/// Counts an evaluation of conditions.
pub(super) fn evaluated(name: &str, took: Duration) {
    histogram!(CONDITION_SECONDS, &of_webhook(name)).record(took);
}

/// Counts a request for which conditions failed.
pub(super) fn conditions_failed(name: &str) {
    counter!(CONDITION_ERRORS, &of_webhook(name)).increment(1);
}

/// Counts a request that conditions kept from the webhook.
pub(super) fn excluded(name: &str) {
    counter!(EXCLUSIONS, &of_webhook(name)).increment(1);
}
