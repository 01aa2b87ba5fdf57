//! Validation of Events. Those of `events.k8s.io` have more rules. All are validated in the core
//! version, in which they are stored; paths are those of that version, except one.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::report;
use crate::types::internal::internal_json;
use api::error_list::ErrorList;

const MAX_TEXT: usize = 128;
const MAX_MESSAGE: usize = 1024;
const OTHER_NAMESPACE: &str = "does not match event.namespace";
const CORE_REPORTER: &str = "reportingComponent";
const EVENTS_REPORTER: &str = "reportingController";
const REFERENCE: &str = "core.v1.ObjectReference";

/// Validates an Event of the core group.
pub fn validate_event(object: &Object, errors: &mut ErrorList) {
    validate(object, CORE_REPORTER, errors);
}

/// Validates an update of an Event of the core group.
pub fn validate_event_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate(object, CORE_REPORTER, errors);
}

/// Validates an Event of `events.k8s.io`.
pub fn validate_events_event(object: &Object, errors: &mut ErrorList) {
    validate(object, EVENTS_REPORTER, errors);
    validate_series(object, errors);
    let time = Field::of(object, "eventTime");
    if !time.is_set() {
        errors.push(time.required(""));
    }
    let kind = Field::of(object, "type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        let why = format!("has invalid value: {}", kind.text());
        errors.push(kind.invalid_value("", why));
    }
    let is_unset = "needs to be unset";
    for name in ["firstTimestamp", "lastTimestamp"] {
        let time = Field::of(object, name);
        if time.is_set() {
            errors.push(time.invalid_value("", is_unset));
        }
    }
    let count = Field::of(object, "count");
    if count.int().unwrap_or_default() != 0 {
        errors.push(count.invalid_value("", is_unset));
    }
    let source = Field::of(object, "source");
    let parts = ["component", "host"];
    if parts
        .iter()
        .any(|part| !source.member(part).text().is_empty())
    {
        errors.push(source.invalid_value("", is_unset));
    }
}

/// Validates an update of an Event of `events.k8s.io`, which may change the series only.
pub fn validate_events_event_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate(object, EVENTS_REPORTER, errors);
    if object.0.get("series") != stored.0.get("series") {
        validate_series(object, errors);
    }
    validate_unchanged(object, stored, errors);
}

/// Validates the rules of both versions. `reporter` is the path of the reporting controller, which
/// differs between them.
fn validate(object: &Object, reporter: &str, errors: &mut ErrorList) {
    let namespace = object.namespace();
    let involved = Field::of(object, "involvedObject");
    let involved = involved.member("namespace");
    let is_new = Field::of(object, "eventTime").is_set();
    let is_right = match (involved.text(), is_new) {
        ("", false) => matches!(namespace, "" | "default"),
        (named, false) => named == namespace,
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (_, true) => true,
    };
    if !is_right {
        errors.push(involved.invalid_value(involved.text(), OTHER_NAMESPACE));
    }
    if is_new {
        validate_reporter(object, reporter, errors);
    }
    let wrong = names::dns_subdomain(namespace).into_iter();
    errors.extend(wrong.map(|message| FieldError::invalid("namespace", namespace, message)));
}

fn validate_reporter(object: &Object, reporter: &str, errors: &mut ErrorList) {
    let controller = Field::named(reporter, object.0.get(CORE_REPORTER));
    if controller.text().is_empty() {
        errors.push(controller.required(""));
    }
    report(
        &controller,
        names::qualified_name(controller.text()),
        errors,
    );
    for name in ["reportingInstance", "action", "reason"] {
        let field = Field::of(object, name);
        if field.text().is_empty() {
            errors.push(field.required(""));
        }
        validate_length(&field, MAX_TEXT, errors);
    }
    validate_length(&Field::of(object, "message"), MAX_MESSAGE, errors);
}

fn validate_length(field: &Field<'_>, limit: usize, errors: &mut ErrorList) {
    if field.text().len() > limit {
        let why = format!("can have at most {limit} characters");
        errors.push(field.invalid_value("", why));
    }
}

fn validate_series(object: &Object, errors: &mut ErrorList) {
    let series = Field::of(object, "series");
    if !series.is_set() {
        return;
    }
    let count = series.member("count");
    if count.int().unwrap_or_default() < 2 {
        errors.push(count.invalid_value("", "should be at least 2"));
    }
    let last = series.member("lastObservedTime");
    if !last.is_set() {
        errors.push(last.required(""));
    }
}

/// The way in which a field is compared and shown.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Time,
    Struct(&'static str),
}

/// Validates that all fields except the series are unchanged.
fn validate_unchanged(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let fields = [
        ("involvedObject", Form::Struct(REFERENCE)),
        ("reason", Form::Text),
        ("message", Form::Text),
        ("source", Form::Struct("core.v1.EventSource")),
        ("firstTimestamp", Form::Time),
        ("lastTimestamp", Form::Time),
        ("count", Form::Number),
        // Kubernetes checks it twice.
        ("reason", Form::Text),
        ("type", Form::Text),
        ("eventTime", Form::Time),
        ("action", Form::Text),
        ("related", Form::Struct(REFERENCE)),
        (CORE_REPORTER, Form::Text),
        ("reportingInstance", Form::Text),
    ];
    for (name, form) in fields {
        let (now, before) = (object.0.get(name), stored.0.get(name));
        if now == before {
            continue;
        }
        let now = shown(name, now, form);
        if now != shown(name, before, form) {
            let path = if name == CORE_REPORTER {
                EVENTS_REPORTER
            } else {
                name
            };
            errors.push(FieldError::invalid_document(
                path,
                &now,
                "field is immutable",
            ));
        }
    }
}

/// Returns a value as JSON. An absent one is shown as Go's zero value.
fn shown(name: &str, value: Option<&Value>, form: Form) -> String {
    let value = value.filter(|value| !value.is_null());
    let empty = Value::Object(serde_json::Map::new());
    match (form, value) {
        (Form::Struct(of), None) if name != "related" => internal_json(of, Some(&empty)),
        (Form::Struct(of), value) => internal_json(of, value),
        (_, Some(value)) => value.to_string(),
        (Form::Text, None) => "\"\"".to_owned(),
        (Form::Number, None) => "0".to_owned(),
        (Form::Time, None) => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::events::events_to_core;
    use crate::recorded::{Functions, check};

    fn in_core(object: &Object) -> Object {
        let mut object = object.clone();
        events_to_core(&mut object);
        object
    }

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(
            include_str!("../../recorded/events.json"),
            |path| match path.starts_with("/api/") {
                true => Functions {
                    defaults: None,
                    create: validate_event,
                    update: Some(validate_event_update),
                },
                false => Functions {
                    defaults: None,
                    create: |object, errors| validate_events_event(&in_core(object), errors),
                    update: Some(|object, stored, errors| {
                        validate_events_event_update(&in_core(object), &in_core(stored), errors);
                    }),
                },
            },
        );
    }
}
