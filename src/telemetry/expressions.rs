//! The metrics of expressions in CEL, which rules of schemas and policies share (HK-96).

use std::time::Duration;

use metrics::{describe_histogram, histogram};

const COMPILATION: &str = "apiserver_cel_compilation_duration_seconds";
const EVALUATION: &str = "apiserver_cel_evaluation_duration_seconds";

/// Measures the compilation of a policy, or of the rules of a schema.
pub fn compiled(took: Duration) {
    describe_histogram!(
        COMPILATION,
        "Time that compiling the expressions of a policy or a schema takes"
    );
    histogram!(COMPILATION).record(took.as_secs_f64());
}

/// Measures the evaluation of a policy for one binding and parameter, or of the rules of a schema
/// for one object.
pub fn evaluated(took: Duration) {
    describe_histogram!(
        EVALUATION,
        "Time that evaluating the expressions of a policy or a schema takes"
    );
    histogram!(EVALUATION).record(took.as_secs_f64());
}
