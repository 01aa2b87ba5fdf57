//! The messages of rules that fail (CRD-175).

use super::super::eval::Evaluated;
use super::super::values::{Failure, Value};
use super::CALL_LIMIT;
use super::compile::Rule;

/// The limit on a computed message in bytes.
const MAX_BYTES: usize = 5 * 1024;

/// The text of a rule for errors about its evaluation: its message, or the rule itself.
pub(super) fn shown(rule: &Rule) -> &str {
    match rule.message.is_empty() {
        true => &rule.text,
        false => rule.message.trim(),
    }
}

/// Returns the message of a rule without a computed one.
pub(super) fn plain(rule: &Rule) -> String {
    match rule.message.is_empty() {
        true => format!("failed rule: {}", rule.text),
        false => rule.message.trim().to_owned(),
    }
}

/// Returns the error of an evaluation, in words. The second part says whether no rule after it is
/// evaluated.
pub(super) fn fault(failure: &Failure, rule: &Rule) -> (String, bool) {
    let shown = shown(rule);
    match failure {
        Failure::Error(what) if what.starts_with("no such overload") => {
            let text = format!(
                "'{what}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {shown}"
            );
            (text, false)
        }
        Failure::Error(what) => (format!("{what} evaluating rule: {shown}"), false),
        Failure::OverBudget => {
            let text = format!(
                "'{failure}': no further validation rules will be run due to call cost exceeds \
                 limit for rule: {shown}"
            );
            (text, true)
        }
        Failure::Abandoned | Failure::Unanswered => {
            (format!("{failure} evaluating rule: {shown}"), true)
        }
    }
}

/// The result of the expression for a message.
pub(super) enum Computed {
    /// The message, and its cost.
    Message(String, i64),
    /// It can't be used. Its cost counts.
    Unusable(i64),
    /// An error that ends all evaluation.
    Fatal(String),
}

/// Returns a computed message, if it may be used: it is one line and not too long.
pub(super) fn computed(found: &Evaluated<'_>, text: &str, left: i64) -> Computed {
    let cost = i64::try_from(found.cost).unwrap_or(i64::MAX);
    if cost > left {
        return Computed::Fatal(
            "messageExpression evaluation failed due to running out of cost budget, no further \
             validation rules will be run"
                .to_owned(),
        );
    }
    match &found.outcome {
        Err(failure) if failure.is_final() => {
            let text = crate::text::quoting::go_quote(text);
            Computed::Fatal(format!(
                "no further validation rules will be run due to call cost exceeds limit for \
                 messageExpression: {text}"
            ))
        }
        Ok(Value::String(message)) => {
            let message = message.trim();
            let is_usable =
                !message.is_empty() && message.len() <= MAX_BYTES && !message.contains('\n');
            match is_usable {
                true => Computed::Message(message.to_owned(), cost),
                false => Computed::Unusable(cost),
            }
        }
        _ => Computed::Unusable(cost),
    }
}

/// The limit on the cost of a computed message.
pub(super) const LIMIT: u64 = CALL_LIMIT;
