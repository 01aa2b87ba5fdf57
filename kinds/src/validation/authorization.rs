//! What is refused of reviews of access (API-292).

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use super::Faults;
use super::internal::invalid_struct;
use super::selectors::validate_requirement_of_review;

/// The faults of a review of what a user may do.
pub fn validate_subject_access_review(object: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_subject(object, &mut faults);
    validate_metadata(object, None, &mut faults);
    faults
}

/// The faults of a review of what a user may do in the namespace of its path.
pub fn validate_local_subject_access_review(object: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_subject(object, &mut faults);
    validate_metadata(object, Some("namespace"), &mut faults);
    let spec = Field::of(object, "spec");
    let resource = spec.member("resourceAttributes");
    let namespace = resource.member("namespace");
    if resource.is_set() && namespace.text() != object.namespace() {
        faults.push(namespace.invalid_value(namespace.text(), "must match metadata.namespace"));
    }
    let other = spec.member("nonResourceAttributes");
    if other.is_set() {
        faults.push(invalid_attributes(
            &other,
            "disallowed on this kind of request",
        ));
    }
    faults
}

/// The faults of a review of what the user who asks may do.
pub fn validate_self_subject_access_review(object: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_question(&Field::of(object, "spec"), &mut faults);
    validate_metadata(object, None, &mut faults);
    faults
}

fn validate_subject(object: &Object, faults: &mut Faults) {
    let spec = Field::of(object, "spec");
    validate_question(&spec, faults);
    let user = spec.member("user");
    if user.text().is_empty() && spec.member("groups").is_empty() {
        faults.push(user.invalid_value("", "at least one of user or group must be specified"));
    }
}

/// What is asked: exactly one of both.
fn validate_question(spec: &Field<'_>, faults: &mut Faults) {
    let resource = spec.member("resourceAttributes");
    let other = spec.member("nonResourceAttributes");
    match (resource.is_set(), other.is_set()) {
        (true, true) => faults.push(invalid_attributes(
            &other,
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => faults.push(resource.invalid(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    for name in ["fieldSelector", "labelSelector"] {
        validate_selector(&resource.member(name), name == "labelSelector", faults);
    }
}

fn invalid_attributes(other: &Field<'_>, why: &str) -> api::field_error::FieldError {
    invalid_struct(other, "authorization.v1.NonResourceAttributes", why)
}

fn validate_selector(selector: &Field<'_>, is_of_labels: bool, faults: &mut Faults) {
    if !selector.is_set() {
        return;
    }
    let raw = selector.member("rawSelector");
    let requirements = selector.member("requirements");
    match (raw.text().is_empty(), requirements.is_empty()) {
        (false, false) => {
            faults.push(raw.invalid("may not specified at the same time as requirements"));
        }
        (true, true) => faults.push(requirements.required(format!(
            "when {selector} is specified, requirements or rawSelector is required"
        ))),
        _ => {}
    }
    for requirement in requirements.items() {
        let key = requirement.member("key");
        if !is_of_labels && key.text().is_empty() {
            faults.push(key.required("must be specified"));
        }
        validate_requirement_of_review(&requirement, is_of_labels, faults);
    }
}

/// Nothing of the metadata may be set but what the server has set, and this member.
fn validate_metadata(object: &Object, allowed: Option<&str>, faults: &mut Faults) {
    let Some(Value::Object(members)) = object.0.get("metadata") else {
        return;
    };
    let is_set =
        |(name, value): (&String, &Value)| Some(name.as_str()) != allowed && !value.is_null();
    if !members.iter().any(is_set) {
        return;
    }
    let document = object.clone().into_document();
    let metadata = Field::named("metadata", document.get("metadata"));
    let except = allowed.map_or_else(String::new, |name| format!(" except for {name}"));
    let why = format!("must be empty{except}");
    faults.push(invalid_struct(&metadata, "meta.v1.ObjectMeta", &why));
}
