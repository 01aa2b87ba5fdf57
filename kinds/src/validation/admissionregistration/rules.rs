//! What is refused of the rules that say which requests are matched.

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldError;
use api::names;

use super::MATCH_POLICIES;
use crate::validation::selectors::validate_label_selector;
use crate::validation::{formats, texts};
use api::error_list::ErrorList;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATED_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Adds the errors of what a policy or its binding matches, if it is there.
pub fn validate_match_resources(resources: &Field<'_>, errors: &mut ErrorList) {
    if !resources.is_set() {
        return;
    }
    let policy = resources.member("matchPolicy");
    texts::validate_one_of(&policy, &MATCH_POLICIES, errors);
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

/// Adds the errors of rules for changing objects: what is deleted can't be changed. The path has no
/// index in Kubernetes.
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
        formats::report(&name, names::path_segment(name.text()), errors);
        if !seen.insert(value) {
            errors.push(name.duplicate());
        }
    }
}

/// Adds the errors of a rule with operations.
pub fn validate_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    let operations = rule.member("operations");
    validate_list(&operations, "operations", errors);
    for operation in operations.items() {
        texts::validate_one_of(&operation, &OPERATIONS, errors);
    }
    validate_list(&rule.member("apiGroups"), "API groups", errors);
    let versions = rule.member("apiVersions");
    validate_list(&versions, "API versions", errors);
    for version in versions.items() {
        formats::require_text(&version, errors);
    }
    validate_resources(&rule.member("resources"), errors);
    texts::validate_one_of(&rule.member("scope"), &SCOPES, errors);
}

/// Adds the errors of a list that has something, or nothing but a star.
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
    // The resources of which all subresources are matched, and the other way round.
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
            // As in Kubernetes, only the last one counts.
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
