//! The metrics of impersonation (AC-75).

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

const ATTEMPTS: &str = "apiserver_impersonation_attempts_total";
const SECONDS: &str = "apiserver_impersonation_attempts_duration_seconds";
const CHECKS: &str = "apiserver_impersonation_authorization_attempts_total";
const CHECK_SECONDS: &str = "apiserver_impersonation_authorization_attempts_duration_seconds";

/// Describes the metrics.
pub(super) fn describe() {
    describe_counter!(
        ATTEMPTS,
        "Requests to be carried out as another user, by mode and decision"
    );
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time to decide about requests to be carried out as another user, by mode and decision"
    );
    describe_counter!(
        CHECKS,
        "Questions to authorizers about impersonation, by mode and decision"
    );
    describe_histogram!(
        CHECK_SECONDS,
        Unit::Seconds,
        "Time of questions to authorizers about impersonation, by mode and decision"
    );
}

fn labels(mode: &'static str, is_allowed: bool) -> [(&'static str, &'static str); 2] {
    let decision = if is_allowed { "allowed" } else { "denied" };
    [("mode", mode), ("decision", decision)]
}

/// Counts a request to be carried out as another user. A refused one has no mode.
pub(super) fn attempted(mode: &'static str, is_allowed: bool, took: Duration) {
    let labels = labels(mode, is_allowed);
    counter!(ATTEMPTS, &labels).increment(1);
    histogram!(SECONDS, &labels).record(took);
}

/// Counts a question to the authorizers.
pub(super) fn asked(mode: &'static str, is_allowed: bool, took: Duration) {
    let labels = labels(mode, is_allowed);
    counter!(CHECKS, &labels).increment(1);
    histogram!(CHECK_SECONDS, &labels).record(took);
}
