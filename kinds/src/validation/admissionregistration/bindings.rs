//! Validation of bindings of admission policies.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;

use super::rules::{validate_match_resources, validate_mutated_operations};
use crate::validation::enums::{require_one_of, validate_one_of};
use crate::validation::report;
use crate::validation::required::require_valid;
use crate::validation::selectors::validate_label_selector;
use api::error_list::ErrorList;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const NOT_FOUND_ACTIONS: [&str; 2] = ["Deny", "Allow"];

/// Validates a ValidatingAdmissionPolicyBinding.
pub fn validate_validatingadmissionpolicybinding(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, errors);
    let spec = Field::of(object, "spec");
    let actions = spec.member("validationActions");
    validate_actions(&actions, errors);
}

/// Validates an update of a ValidatingAdmissionPolicyBinding.
pub fn validate_validatingadmissionpolicybinding_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_validatingadmissionpolicybinding(object, errors);
}

/// Validates a MutatingAdmissionPolicyBinding.
pub fn validate_mutatingadmissionpolicybinding(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, errors);
    let spec = Field::of(object, "spec");
    let matched = spec.member("matchResources");
    validate_mutated_operations(&matched.member("resourceRules"), errors);
}

/// Validates an update of a MutatingAdmissionPolicyBinding.
pub fn validate_mutatingadmissionpolicybinding_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_mutatingadmissionpolicybinding(object, errors);
}

fn validate_binding(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let name = spec.member("policyName");
    require_valid(&name, names::dns_subdomain, errors);
    validate_parameter(&spec.member("paramRef"), errors);
    validate_match_resources(&spec.member("matchResources"), errors);
}

fn validate_parameter(parameter: &Field<'_>, errors: &mut ErrorList) {
    if !parameter.is_set() {
        return;
    }
    let name = parameter.member("name");
    let selector = parameter.member("selector");
    if !name.text().is_empty() {
        report(&name, names::path_segment(name.text()), errors);
        if selector.is_set() {
            errors.push(name.forbidden("name and selector are mutually exclusive"));
        }
    }
    if selector.is_set() {
        validate_label_selector(&selector, false, errors);
        if !name.text().is_empty() {
            errors.push(selector.forbidden("name and selector are mutually exclusive"));
        }
    }
    if name.text().is_empty() && !selector.is_set() {
        errors.push(parameter.required("one of name or selector must be specified"));
    }
    let action = parameter.member("parameterNotFoundAction");
    require_one_of(&action, &NOT_FOUND_ACTIONS, errors);
}

fn validate_actions(actions: &Field<'_>, errors: &mut ErrorList) {
    if actions.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
    let mut seen = HashSet::new();
    for (action, value) in actions.items().zip(actions.list()) {
        validate_one_of(&action, &ACTIONS, errors);
        if !seen.insert(value) {
            errors.push(action.duplicate());
        }
    }
    let has = |name| seen.iter().any(|action| action.as_str() == Some(name));
    if has("Deny") && has("Warn") {
        errors.push(actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure \
             information in the API response and headers serves no purpose)",
        ));
    }
}
