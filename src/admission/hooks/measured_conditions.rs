//! The metrics of the conditions of webhooks and policies (HK-95).

use std::time::Instant;

use metrics::{counter, describe_counter, describe_histogram, histogram};

use super::answers::Asker;
use super::conditions::{self, Met};
use super::expression::{Expression, Variables};
use super::scope::Facts;

const ERRORS: &str = "apiserver_admission_match_condition_evaluation_errors_total";
const EXCLUSIONS: &str = "apiserver_admission_match_condition_exclusions_total";
const SECONDS: &str = "apiserver_admission_match_condition_evaluation_seconds";

/// The kind of a hook, as labels name it.
#[derive(Clone, Copy, Debug)]
pub(super) enum HookKind {
    MutatingWebhook,
    ValidatingWebhook,
    /// Of both kinds: kube-apiserver does not distinguish them.
    Policy,
}

/// The labels of the conditions of a hook.
#[derive(Clone, Copy)]
pub(super) struct ConditionLabels<'m> {
    /// The name of the webhook or policy.
    pub(super) name: &'m str,
    pub(super) kind: HookKind,
    /// The operation of the request.
    pub(super) operation: &'static str,
}

impl ConditionLabels<'_> {
    fn labels(&self) -> [(&'static str, String); 4] {
        let (kind, stage) = match self.kind {
            HookKind::MutatingWebhook => ("webhook", "admit"),
            HookKind::ValidatingWebhook => ("webhook", "validating"),
            HookKind::Policy => ("policy", "validate"),
        };
        [
            ("name", self.name.to_owned()),
            ("kind", kind.to_owned()),
            ("type", stage.to_owned()),
            ("operation", self.operation.to_owned()),
        ]
    }

    /// Counts a request that a webhook is not asked about.
    pub(super) fn excluded(&self) {
        describe_counter!(EXCLUSIONS, "Requests that conditions of hooks exclude");
        counter!(EXCLUSIONS, &self.labels()).increment(1);
    }
}

/// Evaluates conditions, and measures that.
pub(super) async fn evaluate(
    of: &ConditionLabels<'_>,
    conditions: &[Expression],
    variables: &Variables,
    facts: &Facts<'_>,
    asker: &dyn Asker,
) -> Met {
    if conditions.is_empty() {
        return Met::All;
    }
    let began = Instant::now();
    let evaluated = conditions::evaluate(conditions, variables, facts, asker).await;
    let labels = of.labels();
    describe_histogram!(SECONDS, "Time that the conditions of hooks take");
    histogram!(SECONDS, &labels).record(began.elapsed().as_secs_f64());
    if evaluated.failures > 0 {
        describe_counter!(ERRORS, "Conditions of hooks that fail");
        counter!(ERRORS, &labels).increment(evaluated.failures);
    }
    evaluated.met
}
