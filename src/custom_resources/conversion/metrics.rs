//! The metrics of conversion webhooks (HK-83).

use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};

const REQUESTS: &str = "apiserver_conversion_webhook_request_total";
const SECONDS: &str = "apiserver_conversion_webhook_duration_seconds";
const SECONDS_OF_DEFINITION: &str = "apiserver_crd_conversion_webhook_duration_seconds";

/// Counts a call. `failure` is the label of its failure, if it failed.
pub(super) fn called(failure: Option<&'static str>, took: Duration) {
    describe_counter!(REQUESTS, "Calls of conversion webhooks by outcome");
    describe_histogram!(SECONDS, "Time that calls of conversion webhooks take");
    let result = if failure.is_some() {
        "failure"
    } else {
        "success"
    };
    let failure = failure.unwrap_or_default();
    counter!(REQUESTS, "result" => result, "failure_type" => failure).increment(1);
    histogram!(SECONDS, "result" => result, "failure_type" => failure).record(took.as_secs_f64());
}

/// Records the time of a conversion of the objects of a definition.
pub(super) fn converted(definition: &str, from: &str, to: &str, is_ok: bool, took: Duration) {
    describe_histogram!(
        SECONDS_OF_DEFINITION,
        "Time that conversions by webhooks take, by definition and versions"
    );
    let succeeded = if is_ok { "true" } else { "false" };
    histogram!(
        SECONDS_OF_DEFINITION,
        "crd_name" => definition.to_owned(), "from_version" => from.to_owned(),
        "to_version" => to.to_owned(), "succeeded" => succeeded,
    )
    .record(took.as_secs_f64());
}
