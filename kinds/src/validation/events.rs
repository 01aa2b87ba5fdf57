//! What is refused of Events. Both of their versions have the same faults but for a few; paths are
//! those of the older version.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::Faults;
use super::formats::report;
use super::internal::internal_json;

const MAX_TEXT: usize = 128;
const MAX_MESSAGE: usize = 1024;
const OTHER_NAMESPACE: &str = "does not match event.namespace";
const REFERENCE: &str = "core.v1.ObjectReference";

/// The names of fields in a version.
struct Names {
    involved: &'static str,
    message: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    controller: &'static str,
}

const CORE: Names = Names {
    involved: "involvedObject",
    message: "message",
    source: "source",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    controller: "reportingComponent",
};

const EVENTS: Names = Names {
    involved: "regarding",
    message: "note",
    source: "deprecatedSource",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    controller: "reportingController",
};

/// The faults of an Event of the core group.
pub fn validate_event(object: &Object) -> Faults {
    validate(object, &CORE)
}

/// The faults of a change to an Event of the core group.
pub fn validate_event_update(object: &Object, _stored: &Object) -> Faults {
    validate(object, &CORE)
}

/// The faults of an Event of `events.k8s.io`.
pub fn validate_events_event(object: &Object) -> Faults {
    let mut faults = validate(object, &EVENTS);
    validate_series(object, &mut faults);
    let time = Field::of(object, "eventTime");
    if !time.is_set() {
        faults.push(time.required(""));
    }
    let kind = Field::of(object, "type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        let why = format!("has invalid value: {}", kind.text());
        faults.push(kind.invalid_value("", why));
    }
    let old = [
        ("firstTimestamp", EVENTS.first),
        ("lastTimestamp", EVENTS.last),
    ];
    let is_set = |name: &str| object.0.get(name).is_some_and(|value| !value.is_null());
    for (path, name) in old {
        if is_set(name) {
            faults.push(FieldError::invalid(path, "", "needs to be unset"));
        }
    }
    let count = Field::of(object, EVENTS.count);
    if count.int().unwrap_or_default() != 0 {
        faults.push(FieldError::invalid("count", "", "needs to be unset"));
    }
    let source = Field::of(object, EVENTS.source);
    let parts = ["component", "host"];
    if parts
        .iter()
        .any(|part| !source.member(part).text().is_empty())
    {
        faults.push(FieldError::invalid("source", "", "needs to be unset"));
    }
    faults
}

/// The faults of a change to an Event of `events.k8s.io`. Only its series changes.
pub fn validate_events_event_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate(object, &EVENTS);
    if object.0.get("series") != stored.0.get("series") {
        validate_series(object, &mut faults);
    }
    validate_unchanged(object, stored, &mut faults);
    faults
}

/// The rules of the older version.
fn validate(object: &Object, names_of: &Names) -> Faults {
    let mut faults = Faults::new();
    let namespace = object.namespace();
    let involved = Field::named("involvedObject", object.0.get(names_of.involved));
    let involved = involved.member("namespace");
    let is_new = Field::of(object, "eventTime").is_set();
    let is_right = match (involved.text(), is_new) {
        ("", false) => matches!(namespace, "" | "default"),
        (named, false) => named == namespace,
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (_, true) => true,
    };
    if !is_right {
        faults.push(involved.invalid_value(involved.text(), OTHER_NAMESPACE));
    }
    if is_new {
        validate_reporter(object, names_of, &mut faults);
    }
    let wrong = names::dns_subdomain(namespace).into_iter();
    faults.extend(wrong.map(|message| FieldError::invalid("namespace", namespace, message)));
    faults
}

fn validate_reporter(object: &Object, names_of: &Names, faults: &mut Faults) {
    let controller = Field::of(object, names_of.controller);
    if controller.text().is_empty() {
        faults.push(controller.required(""));
    }
    report(
        &controller,
        names::qualified_name(controller.text()),
        faults,
    );
    for name in ["reportingInstance", "action", "reason"] {
        let field = Field::of(object, name);
        if field.text().is_empty() {
            faults.push(field.required(""));
        }
        validate_length(&field, MAX_TEXT, faults);
    }
    let message = Field::named("message", object.0.get(names_of.message));
    validate_length(&message, MAX_MESSAGE, faults);
}

fn validate_length(field: &Field<'_>, limit: usize, faults: &mut Faults) {
    if field.text().len() > limit {
        let why = format!("can have at most {limit} characters");
        faults.push(field.invalid_value("", why));
    }
}

fn validate_series(object: &Object, faults: &mut Faults) {
    let series = Field::of(object, "series");
    if !series.is_set() {
        return;
    }
    let count = series.member("count");
    if count.int().unwrap_or_default() < 2 {
        faults.push(count.invalid_value("", "should be at least 2"));
    }
    let last = series.member("lastObservedTime");
    if !last.is_set() {
        faults.push(last.required(""));
    }
}

/// How a field is compared and shown.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Time,
    Struct(&'static str),
}

/// All fields but the series stay as they are.
fn validate_unchanged(object: &Object, stored: &Object, faults: &mut Faults) {
    let fields = [
        ("involvedObject", EVENTS.involved, Form::Struct(REFERENCE)),
        ("reason", "reason", Form::Text),
        ("message", EVENTS.message, Form::Text),
        ("source", EVENTS.source, Form::Struct("core.v1.EventSource")),
        ("firstTimestamp", EVENTS.first, Form::Time),
        ("lastTimestamp", EVENTS.last, Form::Time),
        ("count", EVENTS.count, Form::Number),
        // Kubernetes looks twice.
        ("reason", "reason", Form::Text),
        ("type", "type", Form::Text),
        ("eventTime", "eventTime", Form::Time),
        ("action", "action", Form::Text),
        ("related", "related", Form::Struct(REFERENCE)),
        ("reportingController", EVENTS.controller, Form::Text),
        ("reportingInstance", "reportingInstance", Form::Text),
    ];
    for (path, name, form) in fields {
        let (now, before) = (object.0.get(name), stored.0.get(name));
        if now == before {
            continue;
        }
        let now = shown(name, now, form);
        if now != shown(name, before, form) {
            faults.push(FieldError::invalid_document(
                path,
                &now,
                "field is immutable",
            ));
        }
    }
}

/// A value as JSON. What is absent shows what Go has for it.
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
    use crate::recorded::{Functions, check};

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
                    create: validate_events_event,
                    update: Some(validate_events_event_update),
                },
            },
        );
    }
}
