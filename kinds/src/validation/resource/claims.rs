//! What is refused of claims of devices and of their templates.

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::names::{Requests, validate_fully_qualified};
use super::{MAX_CONFIGS, validate_length, validate_opaque, validate_selectors, validate_unique};
use crate::validation::formats::{one_of, report};
use crate::validation::internal::invalid_struct;
use crate::validation::pods::volumes::validate_template_metadata;
use crate::validation::selectors::validate_label_name;
use crate::validation::{Faults, texts};

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The faults of a claim.
pub fn validate_resourceclaim(object: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_claim_spec(&Field::of(object, "spec"), &mut faults);
    faults
}

/// The faults of a change to a claim: its spec stays.
pub fn validate_resourceclaim_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    if !object.is_same_at(stored, &["spec"]) {
        let type_name = "resource.v1.ResourceClaimSpec";
        faults.push(invalid_struct(&spec, type_name, "field is immutable"));
    }
    faults
}

/// The faults of a template for claims.
pub fn validate_resourceclaimtemplate(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_template_metadata(&spec.member("metadata"), &mut faults);
    validate_claim_spec(&spec.member("spec"), &mut faults);
    faults
}

/// The faults of a change to a template for claims: its spec stays.
pub fn validate_resourceclaimtemplate_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_resourceclaimtemplate(object);
    let spec = Field::of(object, "spec");
    if !object.is_same_at(stored, &["spec"]) {
        let type_name = "resource.v1.ResourceClaimTemplateSpec";
        faults.push(invalid_struct(&spec, type_name, "field is immutable"));
    }
    faults
}

fn validate_claim_spec(spec: &Field<'_>, faults: &mut Faults) {
    let devices = spec.member("devices");
    let requests = devices.member("requests");
    if validate_length(&requests, MAX_REQUESTS, faults) {
        for request in requests.items() {
            validate_request(&request, faults);
        }
        validate_unique(&requests, "name", faults);
    }
    let known = Requests::of(&requests);
    let constraints = devices.member("constraints");
    if validate_length(&constraints, MAX_CONSTRAINTS, faults) {
        for constraint in constraints.items() {
            validate_constraint(&constraint, &known, faults);
        }
    }
    let configurations = devices.member("config");
    if validate_length(&configurations, MAX_CONFIGS, faults) {
        for configuration in configurations.items() {
            validate_references(&configuration.member("requests"), &known, faults);
            validate_opaque(&configuration, faults);
        }
    }
}

fn validate_request(request: &Field<'_>, faults: &mut Faults) {
    let name = request.member("name");
    report(&name, names::dns_label(name.text()), faults);
    let exactly = request.member("exactly");
    let alternatives = request.member("firstAvailable");
    let one = "exactly one of `exactly` or `firstAvailable` is required";
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => faults.push(request.required(one)),
        (true, true) => faults.push(
            request.invalid_value(Value::Null, format!("{one}, but multiple fields are set")),
        ),
        (true, false) => validate_devices(&exactly, faults),
        (false, true) => {
            if validate_length(&alternatives, MAX_ALTERNATIVES, faults) {
                for alternative in alternatives.items() {
                    let name = alternative.member("name");
                    report(&name, names::dns_label(name.text()), faults);
                    validate_devices(&alternative, faults);
                }
                validate_unique(&alternatives, "name", faults);
            }
        }
    }
}

/// The faults of which devices are asked for, and how many.
fn validate_devices(request: &Field<'_>, faults: &mut Faults) {
    let class = request.member("deviceClassName");
    texts::require_valid(&class, names::dns_subdomain, faults);
    validate_selectors(&request.member("selectors"), faults);
    let mode = request.member("allocationMode");
    let count = request.member("count");
    let number = count.int().unwrap_or(0);
    match mode.text() {
        "All" if number != 0 => {
            faults.push(count.invalid("must not be specified when allocationMode is 'All'"))
        }
        "ExactCount" if number <= 0 => {
            faults.push(count.invalid_value(number, "must be greater than zero"))
        }
        "All" | "ExactCount" => {}
        _ => faults.push(mode.not_supported(&["All", "ExactCount"])),
    }
    for toleration in request.member("tolerations").items() {
        validate_toleration(&toleration, faults);
    }
}

fn validate_toleration(toleration: &Field<'_>, faults: &mut Faults) {
    let key = toleration.member("key");
    if !key.text().is_empty() {
        validate_label_name(key.text(), &key, faults);
    }
    let value = toleration.member("value");
    let operator = toleration.member("operator");
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            faults.push(value.invalid("must be empty for operator `Exists`"))
        }
        "Exists" => {}
        "Equal" => report(&value, names::label_value(value.text()), faults),
        "" => faults.push(operator.required("")),
        _ => faults.push(operator.not_supported(&["Equal", "Exists"])),
    }
    let effect = toleration.member("effect");
    if !effect.text().is_empty() {
        one_of(&effect, &EFFECTS, faults);
    }
}

fn validate_constraint(constraint: &Field<'_>, known: &Requests<'_>, faults: &mut Faults) {
    validate_references(&constraint.member("requests"), known, faults);
    let same = constraint.member("matchAttribute");
    let distinct = constraint.member("distinctAttribute");
    if same.is_set() {
        validate_fully_qualified(&same, faults);
    } else if distinct.is_set() {
        validate_fully_qualified(&distinct, faults);
    } else {
        faults.push(constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but \
             multiple fields are set",
        ));
    }
}

/// The faults of a list of names of requests.
pub(super) fn validate_references(
    references: &Field<'_>,
    known: &Requests<'_>,
    faults: &mut Faults,
) {
    if !validate_length(references, MAX_REQUESTS, faults) {
        return;
    }
    for reference in references.items() {
        known.validate(&reference, faults);
    }
    for (reference, index) in references.items().zip(0..) {
        let mut before = references.list().iter().take(index);
        if before.any(|other| Some(other) == reference.value()) {
            faults.push(reference.duplicate());
        }
    }
}
