//! Validation of access reviews (API-292).

use api::field::{Field, LazyError};
use api::object::Object;
use serde_json::Value;

use super::selectors::validate_requirement_of_review;
use crate::types::internal::invalid_struct;
use api::error_list::ErrorList;

/// Validates a SubjectAccessReview.
pub fn validate_subject_access_review(object: &Object, errors: &mut ErrorList) {
    validate_subject(object, errors);
    validate_metadata(object, None, errors);
}

/// Validates a LocalSubjectAccessReview, whose namespace must be that of the path.
pub fn validate_local_subject_access_review(object: &Object, errors: &mut ErrorList) {
    validate_subject(object, errors);
    validate_metadata(object, Some("namespace"), errors);
    let spec = Field::of(object, "spec");
    let resource = spec.member("resourceAttributes");
    let namespace = resource.member("namespace");
    if resource.is_set() && namespace.text() != object.namespace() {
        errors.push(namespace.invalid_value(namespace.text(), "must match metadata.namespace"));
    }
    let other = spec.member("nonResourceAttributes");
    if other.is_set() {
        errors.push(invalid_attributes(
            &other,
            "disallowed on this kind of request",
        ));
    }
}

/// Validates a SelfSubjectAccessReview.
pub fn validate_self_subject_access_review(object: &Object, errors: &mut ErrorList) {
    validate_question(&Field::of(object, "spec"), errors);
    validate_metadata(object, None, errors);
}

fn validate_subject(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_question(&spec, errors);
    let user = spec.member("user");
    if user.text().is_empty() && spec.member("groups").is_empty() {
        errors.push(user.invalid_value("", "at least one of user or group must be specified"));
    }
}

/// Validates that exactly one kind of attributes is set.
fn validate_question(spec: &Field<'_>, errors: &mut ErrorList) {
    let resource = spec.member("resourceAttributes");
    let other = spec.member("nonResourceAttributes");
    match (resource.is_set(), other.is_set()) {
        (true, true) => errors.push(invalid_attributes(
            &other,
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => errors.push(resource.invalid(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    for name in ["fieldSelector", "labelSelector"] {
        validate_selector(&resource.member(name), name == "labelSelector", errors);
    }
}

fn invalid_attributes<'f>(other: &Field<'f>, why: &'f str) -> LazyError<'f> {
    invalid_struct(other, "authorization.v1.NonResourceAttributes", why)
}

fn validate_selector(selector: &Field<'_>, is_of_labels: bool, errors: &mut ErrorList) {
    if !selector.is_set() {
        return;
    }
    let raw = selector.member("rawSelector");
    let requirements = selector.member("requirements");
    match (raw.text().is_empty(), requirements.is_empty()) {
        (false, false) => {
            errors.push(raw.invalid("may not specified at the same time as requirements"));
        }
        (true, true) => errors.push(requirements.required(format!(
            "when {selector} is specified, requirements or rawSelector is required"
        ))),
        _ => {}
    }
    for requirement in requirements.items() {
        let key = requirement.member("key");
        if !is_of_labels && key.text().is_empty() {
            errors.push(key.required("must be specified"));
        }
        validate_requirement_of_review(&requirement, is_of_labels, errors);
    }
}

/// Validates that metadata is empty, except for fields that the server sets and this member.
fn validate_metadata(object: &Object, allowed: Option<&str>, errors: &mut ErrorList) {
    let Some(Value::Object(members)) = object.0.get("metadata") else {
        return;
    };
    let is_set =
        |(name, value): (&String, &Value)| Some(name.as_str()) != allowed && !value.is_null();
    if !members.iter().any(is_set) {
        return;
    }
    // The error shows the object, whose other members may be large.
    let mut shown = Object::default();
    let metadata = Value::from(members.clone());
    shown.0.insert("metadata".to_owned(), metadata);
    shown.set_managed_fields(object.managed_fields().cloned());
    let document = shown.into_document();
    let metadata = Field::named("metadata", document.get("metadata"));
    let except = allowed.map_or_else(String::new, |name| format!(" except for {name}"));
    let why = format!("must be empty{except}");
    errors.push(invalid_struct(&metadata, "meta.v1.ObjectMeta", &why));
}
