//! What is refused of the expressions in schemas (CRD-48 to CRD-50).

use api::cel::{Environment, Refused, Type, compile};
use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};
use api::structural::Budget;

use super::paths;
use crate::validation::expressions::of_schema;
use crate::validation::internal::internal_json;
use api::error_list::ErrorList;

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

/// Adds the errors of rules, but for their expressions.
pub fn validate_rules(schema: &Field<'_>, errors: &mut ErrorList) {
    let rules = schema.member("x-kubernetes-validations");
    for rule in rules.items() {
        if errors.reported() > MAX_FAULTS {
            return;
        }
        validate_rule(&rule, errors);
        let path = rule.member("fieldPath");
        let (text, value) = (path.text(), schema.value());
        if text.is_empty() {
            continue;
        }
        if text.trim().is_empty() {
            errors.push(path.invalid("must be non-empty if specified"));
        }
        if has_break(text) {
            errors.push(path.invalid("must not contain line breaks"));
        }
        if value.is_none_or(|value| paths::find(text, value, true).is_err()) {
            errors.push(path.invalid("must be a valid path"));
        }
    }
}

fn validate_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    let (expression, message) = (rule.member("rule"), rule.member("message"));
    let (text, words) = (expression.text().trim(), message.text().trim());
    if text.is_empty() {
        errors.push(expression.required("rule is not specified"));
    } else if !message.text().is_empty() && words.is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if has_break(words) {
        errors.push(message.invalid("must not contain line breaks"));
    } else if has_break(text) && words.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(message.required(detail));
    }
    let computed = rule.member("messageExpression");
    if !computed.text().is_empty() && computed.text().trim().is_empty() {
        errors.push(computed.required("messageExpression must be non-empty if specified"));
    }
    let reason = rule.member("reason");
    if reason.is_set() && !REASONS.contains(&reason.text()) {
        errors.push(reason.not_supported(&REASONS));
    }
}

/// What a rule is called in faults that show it.
const RULE: &str = "apiextensions.v1.ValidationRule";

/// Adds the errors of expressions. `uncorrelatable` is a list around the schema whose items can't
/// be found again in the object before.
pub fn compile_rules(
    schema: &Field<'_>,
    is_root: bool,
    uncorrelatable: Option<&Field<'_>>,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let rules = schema.member("x-kubernetes-validations");
    let Some(value) = schema.value().filter(|_| !rules.is_empty()) else {
        return;
    };
    let Some(of) = of_schema(value, is_root, budget) else {
        errors.push(rules.fault(
            FieldErrorKind::Internal,
            "internal error: failed to construct type information for x-kubernetes-validations \
             rules: unable to convert structural schema to CEL declarations",
        ));
        return;
    };
    let environment = Environment::default().with("self", of.clone());
    let plain = environment.clone().with("oldSelf", of.clone());
    let optional = environment.with("oldSelf", Type::optional(of));
    for rule in rules.items() {
        if errors.reported() >= MAX_FAULTS {
            return;
        }
        let is_optional = rule.member("optionalOldSelf").is_set();
        let environment = if is_optional { &optional } else { &plain };
        if !compile_rule(&rule, environment, uncorrelatable, budget, errors) {
            errors.extend(budget.refusal().map(|why| rules.forbidden(why)));
            return;
        }
    }
}

/// The answer is whether the budget was large enough.
fn compile_rule(
    rule: &Field<'_>,
    environment: &Environment,
    uncorrelatable: Option<&Field<'_>>,
    budget: &Budget,
    errors: &mut ErrorList,
) -> bool {
    let expression = rule.member("rule");
    let shown = || internal_json(RULE, rule.value());
    let mut wrong = |field: &Field<'_>, detail: String| {
        errors.push(FieldError::invalid_document(field.path(), &shown(), detail));
    };
    let compiled = match compile(expression.text(), environment, budget) {
        Err(Refused::Spent) => return false,
        Err(Refused::Wrong(why)) => {
            wrong(&expression, format!("compilation failed: {why}"));
            return true;
        }
        Ok(compiled) if compiled.result != Type::Bool => {
            wrong(
                &expression,
                "cel expression must evaluate to a bool".to_owned(),
            );
            return true;
        }
        Ok(compiled) => compiled,
    };
    let message = rule.member("messageExpression");
    if !message.text().is_empty() {
        match compile(message.text(), environment, budget) {
            Err(Refused::Spent) => return false,
            Err(Refused::Wrong(why)) => {
                wrong(
                    &message,
                    format!("messageExpression compilation failed: {why}"),
                );
            }
            Ok(compiled) if compiled.result != Type::String => {
                wrong(
                    &message,
                    "messageExpression must evaluate to a string".to_owned(),
                );
            }
            Ok(_) => {}
        }
    }
    let uses_old = compiled.names.iter().any(|name| name == "oldSelf");
    let optional = rule.member("optionalOldSelf");
    if uses_old && let Some(list) = uncorrelatable {
        errors.push(expression.invalid(format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
        )));
    } else if !uses_old && optional.is_set() {
        errors.push(optional.invalid("may not be set if oldSelf is not used in rule"));
    }
    true
}
