//! The metrics of webhooks (HK-94, HK-95).

use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};

const DURATION: &str = "apiserver_admission_webhook_admission_duration_seconds";
const REQUESTS: &str = "apiserver_admission_webhook_request_total";
const REJECTIONS: &str = "apiserver_admission_webhook_rejection_count";
const FAILED_OPEN: &str = "apiserver_admission_webhook_fail_open_count";

/// The greatest code that is shown. A webhook may answer any.
const CODE_MAX: u16 = 600;

/// The labels of one call.
pub(super) struct Measured<'m> {
    /// The name of the webhook.
    pub name: &'m str,
    /// Whether it is a mutating one.
    pub is_mutating: bool,
    /// The operation of the request.
    pub operation: &'static str,
}

impl Measured<'_> {
    fn kind(&self) -> &'static str {
        if self.is_mutating {
            "admit"
        } else {
            "validating"
        }
    }
}

/// Why a call has rejected its request.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorType {
    /// The call failed.
    Calling,
    /// The answer can't be carried out.
    Internal,
    /// The webhook refused the request.
    NoError,
}

/// The outcome of a call.
pub(super) struct Called {
    pub took: Duration,
    pub is_rejected: bool,
    pub code: u16,
    /// Why the request was rejected, if it was.
    pub error: Option<ErrorType>,
}

/// Counts a call.
pub(super) fn called(of: &Measured<'_>, call: &Called) {
    describe_histogram!(DURATION, "Time that calls of admission webhooks take");
    describe_counter!(REQUESTS, "Calls of admission webhooks by outcome");
    describe_counter!(REJECTIONS, "Requests that admission webhooks rejected");
    let rejected = if call.is_rejected { "true" } else { "false" };
    let code = call.code.min(CODE_MAX).to_string();
    histogram!(
        DURATION,
        "name" => of.name.to_owned(), "operation" => of.operation, "rejected" => rejected,
        "type" => of.kind(),
    )
    .record(call.took.as_secs_f64());
    counter!(
        REQUESTS,
        "name" => of.name.to_owned(), "operation" => of.operation, "rejected" => rejected,
        "type" => of.kind(), "code" => code.clone(),
    )
    .increment(1);
    if let Some(error) = call.error {
        let error = match error {
            ErrorType::Calling => "calling_webhook_error",
            ErrorType::Internal => "apiserver_internal_error",
            ErrorType::NoError => "no_error",
        };
        counter!(
            REJECTIONS,
            "name" => of.name.to_owned(), "operation" => of.operation, "type" => of.kind(),
            "error_type" => error, "rejection_code" => code,
        )
        .increment(1);
    }
}

/// Counts a failed call that lets its request go on.
pub(super) fn failed_open(of: &Measured<'_>) {
    describe_counter!(
        FAILED_OPEN,
        "Failed calls of admission webhooks with failurePolicy Ignore"
    );
    counter!(FAILED_OPEN, "name" => of.name.to_owned(), "type" => of.kind()).increment(1);
}
