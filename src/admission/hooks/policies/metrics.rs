//! The metrics of policies (HK-96).

use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};

const COMPILATION: &str = "apiserver_cel_compilation_duration_seconds";
const EVALUATION: &str = "apiserver_cel_evaluation_duration_seconds";

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

/// The names of the metrics of one kind of policies.
#[derive(Clone, Copy)]
pub(super) struct Family {
    total: &'static str,
    duration: &'static str,
}

/// The metrics of validating policies.
pub(super) const VALIDATING: Family = Family {
    total: "apiserver_validating_admission_policy_check_total",
    duration: "apiserver_validating_admission_policy_check_duration_seconds",
};

/// The metrics of mutating policies.
pub(super) const MUTATING: Family = Family {
    total: "apiserver_mutating_admission_policy_check_total",
    duration: "apiserver_mutating_admission_policy_check_duration_seconds",
};

/// The policy and the binding of a check.
#[derive(Clone, Copy)]
pub(super) struct Checked<'c> {
    pub policy: &'c str,
    pub binding: &'c str,
}

impl Family {
    /// Counts a check with its effect: `allow`, `deny`, `warn` or `audit`.
    pub(super) fn checked(
        self,
        of: Checked<'_>,
        action: &'static str,
        error: ErrorType,
        took: Duration,
    ) {
        describe_counter!(self.total, "Checks of admission policies by effect");
        describe_histogram!(self.duration, "Time that checks of admission policies take");
        let labels = [
            ("policy", of.policy.to_owned()),
            ("policy_binding", of.binding.to_owned()),
            ("error_type", error.name().to_owned()),
            ("enforcement_action", action.to_owned()),
        ];
        counter!(self.total, &labels).increment(1);
        histogram!(self.duration, &labels).record(took.as_secs_f64());
    }
}

/// Measures the compilation of a policy.
pub(super) fn compiled(took: Duration) {
    describe_histogram!(
        COMPILATION,
        "Time that compiling the expressions of a policy takes"
    );
    histogram!(COMPILATION).record(took.as_secs_f64());
}

/// Measures the evaluation of a policy for one binding and parameter.
pub(super) fn evaluated(took: Duration) {
    describe_histogram!(
        EVALUATION,
        "Time that evaluating the expressions of a policy takes"
    );
    histogram!(EVALUATION).record(took.as_secs_f64());
}
