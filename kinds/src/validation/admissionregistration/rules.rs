//! Validation of the rules by which webhooks and policies match requests.

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldError;
use api::names;

use super::MATCH_POLICIES;
use crate::validation::enums::validate_one_of;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::selectors::validate_label_selector;
use api::error_list::ErrorList;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATED_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Validates the match resources of a policy or a binding, if it has any.
pub fn validate_match_resources(resources: &Field<'_>, errors: &mut ErrorList) {
    if !resources.is_set() {
        return;
    }
    let policy = resources.member("matchPolicy");
    validate_one_of(&policy, &MATCH_POLICIES, errors);
    for name in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&resources.member(name), false, errors);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.member(name).items() {
            validate_rule(&rule, errors);
            validate_names(&rule.member("resourceNames"), errors);
        }
    }
}

/// Validates that the rules of a mutating policy match no operation that has nothing to mutate,
/// such as DELETE. The path has no index of the rule in Kubernetes.
pub fn validate_mutated_operations(rules: &Field<'_>, errors: &mut ErrorList) {
    let path = rules.member("operations").path();
    for rule in rules.items() {
        for operation in rule.member("operations").items() {
            if !MUTATED_OPERATIONS.contains(&operation.text()) {
                let (path, value) = (path.clone(), operation.text());
                errors.push(FieldError::not_supported(path, value, &MUTATED_OPERATIONS));
            }
        }
    }
}

fn validate_names(resource_names: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (name, value) in resource_names.items().zip(resource_names.list()) {
        report(&name, names::path_segment(name.text()), errors);
        if !seen.insert(value) {
            errors.push(name.duplicate());
        }
    }
}

/// Validates a rule with operations.
pub fn validate_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    let operations = rule.member("operations");
    validate_list(&operations, "operations", errors);
    for operation in operations.items() {
        validate_one_of(&operation, &OPERATIONS, errors);
    }
    validate_list(&rule.member("apiGroups"), "API groups", errors);
    let versions = rule.member("apiVersions");
    validate_list(&versions, "API versions", errors);
    for version in versions.items() {
        require_text(&version, errors);
    }
    validate_resources(&rule.member("resources"), errors);
    validate_one_of(&rule.member("scope"), &SCOPES, errors);
}

/// Validates that a list is not empty, and that `*` is its only item if present.
fn validate_list(list: &Field<'_>, others: &str, errors: &mut ErrorList) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
    let mut items = list.list().iter();
    if list.len() > 1 && items.any(|item| item.as_str() == Some("*")) {
        let detail = format!("if '*' is present, must not specify other {others}");
        errors.push(list.invalid(detail));
    }
}

fn validate_resources(resources: &Field<'_>, errors: &mut ErrorList) {
    if resources.is_empty() {
        errors.push(resources.required(""));
    }
    // Resources with `<resource>/*`, and subresources with `*/<subresource>`.
    let mut with_all: HashSet<&str> = HashSet::new();
    let mut of_all: HashSet<&str> = HashSet::new();
    let (mut has_double_star, mut has_star, mut has_plain) = (false, false, false);
    for (field, value) in resources.items().zip(resources.list()) {
        let text = value.as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(field.required(""));
            continue;
        }
        has_double_star |= text == "*/*";
        has_star |= text == "*";
        let Some((resource, subresource)) = text.split_once('/') else {
            // As in Kubernetes, only the last item counts.
            has_plain = text != "*";
            continue;
        };
        if with_all.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            errors.push(field.invalid(detail));
        }
        if of_all.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {text}");
            errors.push(field.invalid(detail));
        }
        if subresource == "*" {
            with_all.insert(resource);
        }
        if resource == "*" {
            of_all.insert(subresource);
        }
    }
    if resources.len() > 1 && has_double_star {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(resources.invalid(detail));
    }
    if has_star && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(resources.invalid(detail));
    }
}
