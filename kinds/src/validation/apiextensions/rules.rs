//! What is refused of the expressions in schemas (CRD-48 to CRD-50).

use api::field::Field;

use super::paths;
use crate::validation::Faults;

/// No more faults than this are looked for in one list.
const MAX_FAULTS: usize = 200;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn has_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// The faults of rules, but for their expressions.
pub fn validate_rules(schema: &Field<'_>, faults: &mut Faults) {
    let rules = schema.member("x-kubernetes-validations");
    for rule in rules.items() {
        if faults.len() > MAX_FAULTS {
            return;
        }
        validate_rule(&rule, faults);
        let path = rule.member("fieldPath");
        let (text, value) = (path.text(), schema.value());
        if text.is_empty() {
            continue;
        }
        if text.trim().is_empty() {
            faults.push(path.invalid("must be non-empty if specified"));
        }
        if has_break(text) {
            faults.push(path.invalid("must not contain line breaks"));
        }
        if value.is_none_or(|value| paths::find(text, value, true).is_err()) {
            faults.push(path.invalid("must be a valid path"));
        }
    }
}

fn validate_rule(rule: &Field<'_>, faults: &mut Faults) {
    let (expression, message) = (rule.member("rule"), rule.member("message"));
    let (text, words) = (expression.text().trim(), message.text().trim());
    if text.is_empty() {
        faults.push(expression.required("rule is not specified"));
    } else if !message.text().is_empty() && words.is_empty() {
        faults.push(message.invalid("must be non-empty if specified"));
    } else if has_break(words) {
        faults.push(message.invalid("must not contain line breaks"));
    } else if has_break(text) && words.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        faults.push(message.required(detail));
    }
    let computed = rule.member("messageExpression");
    if !computed.text().is_empty() && computed.text().trim().is_empty() {
        faults.push(computed.required("messageExpression must be non-empty if specified"));
    }
    let reason = rule.member("reason");
    if reason.is_set() && !REASONS.contains(&reason.text()) {
        faults.push(reason.not_supported(&REASONS));
    }
}

/// The faults of expressions.
pub fn compile_rules(_: &Field<'_>, _: Option<&Field<'_>>, _: &mut Faults) {}
