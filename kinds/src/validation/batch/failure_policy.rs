//! What is refused of a Job's rules for pods that failed.

use api::field::Field;
use api::field_error::FieldError;
use api::names;

use super::{invalid_whole, too_many};
use api::error_list::ErrorList;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;

/// Adds the errors of the rules. `spec` is the Job's.
pub(super) fn validate_failure_policy(
    spec: &Field<'_>,
    policy: &Field<'_>,
    errors: &mut ErrorList,
) {
    let rules = policy.member("rules");
    if rules.len() > MAX_RULES {
        errors.push(too_many(&rules, MAX_RULES));
    }
    for rule in rules.items() {
        validate_rule(spec, &rule, errors);
    }
}

/// A text is one of these.
fn validate_choice(field: &Field<'_>, values: &[&str], errors: &mut ErrorList) {
    if field.text().is_empty() {
        let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
        errors.push(field.required(format!("valid values: [{}]", quoted.join(" "))));
    } else if !values.contains(&field.text()) {
        errors.push(field.not_supported(values));
    }
}

fn validate_rule(spec: &Field<'_>, rule: &Field<'_>, errors: &mut ErrorList) {
    let action = rule.member("action");
    if action.text() == "FailIndex" && !spec.member("backoffLimitPerIndex").is_set() {
        errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
    }
    validate_choice(
        &action,
        &["Count", "FailIndex", "FailJob", "Ignore"],
        errors,
    );
    let codes = rule.member("onExitCodes");
    let conditions = rule.member("onPodConditions");
    if codes.is_set() {
        validate_exit_codes(spec, &codes, errors);
    }
    if conditions.len() > MAX_CONDITIONS {
        errors.push(too_many(&conditions, MAX_CONDITIONS));
    }
    for pattern in conditions.items() {
        let of = pattern.member("type");
        let wrong = names::qualified_name(of.text()).into_iter();
        errors.extend(wrong.map(|message| of.invalid_value(of.text(), message)));
        let status = pattern.member("status");
        validate_choice(&status, &["False", "True", "Unknown"], errors);
    }
    match (codes.is_set(), conditions.is_empty()) {
        (true, false) => errors.push(invalid_whole(
            rule,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        )),
        (false, true) => errors.push(invalid_whole(
            rule,
            "specifying one of OnExitCodes and OnPodConditions is required",
        )),
        _ => {}
    }
}

fn validate_exit_codes(spec: &Field<'_>, codes: &Field<'_>, errors: &mut ErrorList) {
    let operator = codes.member("operator");
    validate_choice(&operator, &["In", "NotIn"], errors);
    let container = codes.member("containerName");
    if container.is_set() && !has_container(spec, container.text()) {
        errors
            .push(container.invalid(
                "must be one of the container or initContainer names in the pod template",
            ));
    }
    let values = codes.member("values");
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(too_many(&values, MAX_EXIT_CODES));
    }
    validate_order(operator.text(), &values, errors);
}

/// Exit codes are there once, and in order.
fn validate_order(operator: &str, values: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = std::collections::BTreeSet::new();
    let mut before = None;
    let mut is_ordered = true;
    for value in values.items() {
        let code = value.int();
        if operator == "In" && code == Some(0) {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            errors.push(value.duplicate());
        }
        is_ordered &= before <= code;
        before = code;
    }
    if !is_ordered {
        let shown = serde_json::Value::from(values.list().to_vec());
        errors.push(FieldError::invalid(values.path(), shown, "must be ordered"));
    }
}

fn has_container(spec: &Field<'_>, name: &str) -> bool {
    let template = spec.member("template");
    let pod = template.member("spec");
    ["containers", "initContainers"].into_iter().any(|list| {
        let containers = pod.member(list);
        let names = |container: &serde_json::Value| {
            container.get("name").and_then(serde_json::Value::as_str) == Some(name)
        };
        containers.list().iter().any(names)
    })
}
