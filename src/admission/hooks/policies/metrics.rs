//! The metrics of policies (HK-96).

use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};

const VALIDATIONS: &str = "apiserver_validating_admission_policy_check_total";
const VALIDATION_SECONDS: &str = "apiserver_validating_admission_policy_check_duration_seconds";
const MUTATIONS: &str = "apiserver_mutating_admission_policy_check_total";
const MUTATION_SECONDS: &str = "apiserver_mutating_admission_policy_check_duration_seconds";

/// The kind of an error, for metrics (HK-96).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ErrorType {
    NoError,
    Compile,
    Invalid,
    OutOfBudget,
}

impl ErrorType {
    pub(super) fn name(self) -> &'static str {
        match self {
            ErrorType::NoError => "no_error",
            ErrorType::Compile => "compile_error",
            ErrorType::Invalid => "invalid_error",
            ErrorType::OutOfBudget => "out_of_budget",
        }
    }
}

/// The policy and the binding of a check.
#[derive(Clone, Copy)]
pub(super) struct Checked<'c> {
    pub policy: &'c str,
    pub binding: &'c str,
}

impl Checked<'_> {
    fn labels(self, error: ErrorType) -> [(&'static str, String); 3] {
        [
            ("policy", self.policy.to_owned()),
            ("policy_binding", self.binding.to_owned()),
            ("error_type", error.name().to_owned()),
        ]
    }
}

/// Counts a check of a validating policy with its effect: `allow`, `deny`, `warn` or `audit`.
pub(super) fn validated_as(
    of: Checked<'_>,
    action: &'static str,
    error: ErrorType,
    took: Duration,
) {
    describe_counter!(
        VALIDATIONS,
        "Checks of validating admission policies by effect"
    );
    describe_histogram!(
        VALIDATION_SECONDS,
        "Time that checks of validating admission policies take"
    );
    let [policy, binding, error] = of.labels(error);
    let labels = [
        policy,
        binding,
        error,
        ("enforcement_action", action.to_owned()),
    ];
    counter!(VALIDATIONS, &labels).increment(1);
    histogram!(VALIDATION_SECONDS, &labels).record(took.as_secs_f64());
}

/// Counts a mutation.
pub(super) fn mutated_with(of: Checked<'_>, error: ErrorType, took: Duration) {
    describe_counter!(
        MUTATIONS,
        "Mutations of mutating admission policies by outcome"
    );
    describe_histogram!(
        MUTATION_SECONDS,
        "Time that mutations of mutating admission policies take"
    );
    let labels = of.labels(error);
    counter!(MUTATIONS, &labels).increment(1);
    histogram!(MUTATION_SECONDS, &labels).record(took.as_secs_f64());
}
