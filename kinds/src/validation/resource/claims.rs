//! Validation of ResourceClaims and ResourceClaimTemplates.

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::names::{Requests, validate_fully_qualified};
use super::{MAX_CONFIGS, validate_length, validate_opaque, validate_selectors, validate_unique};
use crate::types::internal::invalid_struct;
use crate::validation::enums::validate_one_of;
use crate::validation::pods::volumes::validate_template_metadata;
use crate::validation::report;
use crate::validation::required::require_valid;
use crate::validation::selectors::validate_label_name;
use api::error_list::ErrorList;

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a ResourceClaim.
pub fn validate_resourceclaim(object: &Object, errors: &mut ErrorList) {
    validate_claim_spec(&Field::of(object, "spec"), errors);
}

/// Validates an update of a ResourceClaim, whose spec is immutable.
pub fn validate_resourceclaim_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    if !object.is_same_at(stored, &["spec"]) {
        let type_name = "resource.v1.ResourceClaimSpec";
        errors.push(invalid_struct(&spec, type_name, "field is immutable"));
    }
}

/// Validates a ResourceClaimTemplate.
pub fn validate_resourceclaimtemplate(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_template_metadata(&spec.member("metadata"), errors);
    validate_claim_spec(&spec.member("spec"), errors);
}

/// Validates an update of a ResourceClaimTemplate, whose spec is immutable.
pub fn validate_resourceclaimtemplate_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_resourceclaimtemplate(object, errors);
    let spec = Field::of(object, "spec");
    if !object.is_same_at(stored, &["spec"]) {
        let type_name = "resource.v1.ResourceClaimTemplateSpec";
        errors.push(invalid_struct(&spec, type_name, "field is immutable"));
    }
}

fn validate_claim_spec(spec: &Field<'_>, errors: &mut ErrorList) {
    let devices = spec.member("devices");
    let requests = devices.member("requests");
    if validate_length(&requests, MAX_REQUESTS, errors) {
        for request in requests.items() {
            validate_request(&request, errors);
        }
        validate_unique(&requests, "name", errors);
    }
    let known = Requests::of(&requests);
    let constraints = devices.member("constraints");
    if validate_length(&constraints, MAX_CONSTRAINTS, errors) {
        for constraint in constraints.items() {
            validate_constraint(&constraint, &known, errors);
        }
    }
    let configurations = devices.member("config");
    if validate_length(&configurations, MAX_CONFIGS, errors) {
        for configuration in configurations.items() {
            validate_references(&configuration.member("requests"), &known, errors);
            validate_opaque(&configuration, errors);
        }
    }
}

fn validate_request(request: &Field<'_>, errors: &mut ErrorList) {
    let name = request.member("name");
    report(&name, names::dns_label(name.text()), errors);
    let exactly = request.member("exactly");
    let alternatives = request.member("firstAvailable");
    let one = "exactly one of `exactly` or `firstAvailable` is required";
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => errors.push(request.required(one)),
        (true, true) => errors.push(
            request.invalid_value(Value::Null, format!("{one}, but multiple fields are set")),
        ),
        (true, false) => validate_devices(&exactly, errors),
        (false, true) => {
            if validate_length(&alternatives, MAX_ALTERNATIVES, errors) {
                for alternative in alternatives.items() {
                    let name = alternative.member("name");
                    report(&name, names::dns_label(name.text()), errors);
                    validate_devices(&alternative, errors);
                }
                validate_unique(&alternatives, "name", errors);
            }
        }
    }
}

/// Validates the class, selectors and number of the requested devices.
fn validate_devices(request: &Field<'_>, errors: &mut ErrorList) {
    let class = request.member("deviceClassName");
    require_valid(&class, names::dns_subdomain, errors);
    validate_selectors(&request.member("selectors"), errors);
    let mode = request.member("allocationMode");
    let count = request.member("count");
    let number = count.int().unwrap_or(0);
    match mode.text() {
        "All" if number != 0 => {
            errors.push(count.invalid("must not be specified when allocationMode is 'All'"))
        }
        "ExactCount" if number <= 0 => {
            errors.push(count.invalid_value(number, "must be greater than zero"))
        }
        "All" | "ExactCount" => {}
        _ => errors.push(mode.not_supported(&["All", "ExactCount"])),
    }
    for toleration in request.member("tolerations").items() {
        validate_toleration(&toleration, errors);
    }
}

fn validate_toleration(toleration: &Field<'_>, errors: &mut ErrorList) {
    let key = toleration.member("key");
    if !key.text().is_empty() {
        validate_label_name(key.text(), &key, errors);
    }
    let value = toleration.member("value");
    let operator = toleration.member("operator");
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"))
        }
        "Exists" => {}
        "Equal" => report(&value, names::label_value(value.text()), errors),
        "" => errors.push(operator.required("")),
        _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
    }
    let effect = toleration.member("effect");
    if !effect.text().is_empty() {
        validate_one_of(&effect, &EFFECTS, errors);
    }
}

fn validate_constraint(constraint: &Field<'_>, known: &Requests<'_>, errors: &mut ErrorList) {
    validate_references(&constraint.member("requests"), known, errors);
    let same = constraint.member("matchAttribute");
    let distinct = constraint.member("distinctAttribute");
    if same.is_set() {
        validate_fully_qualified(&same, errors);
    } else if distinct.is_set() {
        validate_fully_qualified(&distinct, errors);
    } else {
        errors.push(constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but \
             multiple fields are set",
        ));
    }
}

/// Validates a list of references to requests.
pub(super) fn validate_references(
    references: &Field<'_>,
    known: &Requests<'_>,
    errors: &mut ErrorList,
) {
    if !validate_length(references, MAX_REQUESTS, errors) {
        return;
    }
    for reference in references.items() {
        known.validate(&reference, errors);
    }
    for (reference, index) in references.items().zip(0..) {
        let mut before = references.list().iter().take(index);
        // linear: at most 32 references.
        if before.any(|other| Some(other) == reference.value()) {
            errors.push(reference.duplicate());
        }
    }
}
