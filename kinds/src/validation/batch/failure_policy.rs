//! Validation of a Job's pod failure policy.

use std::collections::HashSet;

use api::field::Field;
use api::names;

use super::invalid_whole;
use crate::validation::too_many;
use api::error_list::ErrorList;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;

/// The properties of a Job that its rules refer to.
struct Job<'j> {
    has_limit_per_index: bool,
    /// The names of the pod's containers.
    containers: HashSet<&'j str>,
}

/// Validates the pod failure policy. `spec` is that of the Job.
pub(super) fn validate_failure_policy(
    spec: &Field<'_>,
    policy: &Field<'_>,
    errors: &mut ErrorList,
) {
    let rules = policy.member("rules");
    if rules.len() > MAX_RULES {
        errors.push(too_many(&rules, MAX_RULES));
    }
    let template = spec.member("template");
    let pod = template.member("spec");
    let lists = [pod.member("containers"), pod.member("initContainers")];
    let containers = lists.iter().flat_map(Field::items);
    let job = Job {
        has_limit_per_index: spec.member("backoffLimitPerIndex").is_set(),
        containers: containers.map(|of| of.text_of("name")).collect(),
    };
    for rule in rules.items() {
        validate_rule(&job, &rule, errors);
    }
}

/// Validates that a text is one of these.
fn validate_choice(field: &Field<'_>, values: &[&str], errors: &mut ErrorList) {
    if field.text().is_empty() {
        let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
        errors.push(field.required(format!("valid values: [{}]", quoted.join(" "))));
    } else if !values.contains(&field.text()) {
        errors.push(field.not_supported(values));
    }
}

fn validate_rule(job: &Job<'_>, rule: &Field<'_>, errors: &mut ErrorList) {
    let action = rule.member("action");
    if action.text() == "FailIndex" && !job.has_limit_per_index {
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
        validate_exit_codes(job, &codes, errors);
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

fn validate_exit_codes(job: &Job<'_>, codes: &Field<'_>, errors: &mut ErrorList) {
    let operator = codes.member("operator");
    validate_choice(&operator, &["In", "NotIn"], errors);
    let container = codes.member("containerName");
    if container.is_set() && !job.containers.contains(container.text()) {
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

/// Validates that exit codes are unique and sorted.
fn validate_order(operator: &str, values: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
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
        errors.push(values.invalid("must be ordered"));
    }
}
