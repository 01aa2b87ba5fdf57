//! What is refused of the values that a schema fills in (CRD-40): each must be valid itself.

use std::borrow::Cow;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind, beginning};
use api::structural::{
    Budget, Patterns, Structural, ValueFault, ValueFaultKind, prune, validate_value,
};
use serde_json::{Map, Value};

use super::options::Options;
use crate::validation::formats::dns1035_label;
use api::error_list::ErrorList;

/// No more faults than this are looked for.
const MAX_FAULTS: usize = 200;

/// A fault shows no more bytes of the values that there are.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// The members that every whole object has.
const OBJECT_MEMBERS: [&str; 3] = ["metadata", "apiVersion", "kind"];

/// Adds the errors of what is filled in by a schema.
pub fn validate_defaults(
    schema: &Field<'_>,
    value: &Value,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let mut check = Check {
        options,
        patterns: Patterns::default(),
        budget,
        errors,
    };
    check.node(schema, value, true, None);
}

struct Check<'c, 's> {
    options: Options,
    patterns: Patterns<'s>,
    budget: &'c Budget,
    errors: &'c mut ErrorList,
}

/// Where in an object something is filled in: the names of members, from the inside out.
struct Inside<'i> {
    above: Option<&'i Inside<'i>>,
    name: &'i str,
}

impl<'s> Check<'_, 's> {
    /// Looks at a schema, which is this value. `inside` says where in the metadata of an object it
    /// is.
    fn node(
        &mut self,
        schema: &Field<'_>,
        value: &'s Value,
        is_root: bool,
        inside: Option<&Inside<'_>>,
    ) {
        if self.errors.reported() >= MAX_FAULTS {
            return;
        }
        let read = Structural::read(value);
        let is_object = is_root || read.is_embedded;
        let inside = inside.filter(|_| !is_object);
        if let Some(default) = read.default {
            let field = schema.member("default");
            match inside {
                Some(inside) => self.in_metadata(&field, default, inside),
                None => self.default(&field, default, value, is_object),
            }
        }
        if let Some(of) = read.items {
            self.node(&schema.member("items"), of, false, inside);
        }
        let properties = schema.member("properties");
        for (name, of) in read.properties.into_iter().flatten() {
            let property = properties.key(name);
            let step = Inside {
                above: inside,
                name,
            };
            let is_metadata = is_object && OBJECT_MEMBERS.contains(&name.as_str());
            let is_inside = is_metadata || inside.is_some();
            self.node(&property, of, false, is_inside.then_some(&step));
        }
    }

    fn default(&mut self, field: &Field<'_>, value: &'s Value, schema: &'s Value, is_object: bool) {
        if self.options.require_pruned_defaults {
            let mut pruned = value.clone();
            if prune(&mut pruned, schema, is_object) {
                self.errors
                    .push(field.invalid("must not have unknown fields"));
            }
        }
        if !self.options.require_structural {
            return;
        }
        let before = self.errors.reported();
        if is_object && let Some(members) = value.as_object() {
            validate_object(field, members, self.errors);
        }
        if self.errors.reported() == before {
            let errors = validate_value(value, schema, &mut self.patterns, self.budget);
            if self.budget.is_spent() {
                let refusal = self.budget.refusal();
                self.errors.extend(refusal.map(|why| field.forbidden(why)));
                return;
            }
            self.errors
                .extend(errors.into_iter().map(|fault| told(field, fault)));
        }
    }

    /// What is filled in of metadata is checked in an object that has nothing else.
    fn in_metadata(&mut self, field: &Field<'_>, value: &Value, inside: &Inside<'_>) {
        let mut whole = value.clone();
        let mut step = Some(inside);
        while let Some(Inside { above, name }) = step {
            let mut members = Map::new();
            members.insert((*name).to_owned(), whole);
            whole = Value::Object(members);
            step = *above;
        }
        let Value::Object(mut members) = whole else {
            return;
        };
        for (name, known) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            members.entry(name).or_insert_with(|| known.into());
        }
        let mut found = ErrorList::new();
        validate_members(&members, &|name| name.to_owned(), &mut found);
        if !found.is_empty() {
            let text = match found.kept() {
                [only] => only.to_string(),
                several => {
                    let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
                    format!("[{}]", texts.join(", "))
                }
            };
            let detail = format!("must result in valid metadata: {text}");
            self.errors.push(field.invalid(detail));
        }
    }
}

/// A whole object has a kind and metadata.
fn validate_object(field: &Field<'_>, members: &Map<String, Value>, errors: &mut ErrorList) {
    validate_members(members, &|name| format!("{}.{name}", field.path()), errors);
}

fn validate_members(
    members: &Map<String, Value>,
    path: &dyn Fn(&str) -> String,
    errors: &mut ErrorList,
) {
    let before = errors.reported();
    for name in ["apiVersion", "kind"] {
        match members.get(name) {
            None | Some(Value::String(_)) => {}
            Some(other) => {
                let detail = "must be a string";
                errors.push(FieldError::invalid(path(name), other.clone(), detail));
            }
        }
    }
    if let Some(metadata) = members.get("metadata") {
        super::metadata::validate_types(metadata, &path("metadata"), errors);
    }
    if errors.reported() > before {
        return;
    }
    let text = |name: &str| {
        members
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("apiVersion");
    if version.is_empty() {
        errors.push(FieldError::required(path("apiVersion"), ""));
    } else if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(path("apiVersion"), version, detail));
    }
    let kind = text("kind");
    if kind.is_empty() {
        errors.push(FieldError::required(path("kind"), ""));
    } else {
        let wrong = dns1035_label(&kind.to_lowercase());
        if !wrong.is_empty() {
            let wrong = wrong.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {wrong}");
            errors.push(FieldError::invalid(path("kind"), kind, detail));
        }
    }
    if let Some(metadata) = members.get("metadata") {
        super::metadata::validate_values(metadata, &path("metadata"), errors);
    }
}

/// The fault of a value, at the place where it is filled in.
fn told(field: &Field<'_>, fault: ValueFault<'_>) -> FieldError {
    let path = match fault.path.trim_start_matches('.') {
        "" => field.path(),
        below => format!("{}.{below}", field.path()),
    };
    match fault.kind {
        ValueFaultKind::Required => FieldError::required(path, ""),
        ValueFaultKind::NotSupported { value, supported } => {
            let supported = shown_values(supported);
            let supported: Vec<&str> = supported.iter().map(|text| text.as_ref()).collect();
            let quoted = FieldError::not_supported("", "", &supported).detail;
            FieldError::new(FieldErrorKind::NotSupported, path, value, quoted)
        }
        ValueFaultKind::TooLong(limit) => {
            let bytes = if limit == 1 { "byte" } else { "bytes" };
            let detail = format!("may not be more than {limit} {bytes}");
            FieldError::new(FieldErrorKind::TooLong, path, &Value::Null, detail)
        }
        ValueFaultKind::TooMany { found, limit } => {
            let items = if limit == 1 { "item" } else { "items" };
            let detail = format!("must have at most {limit} {items}");
            FieldError::new(FieldErrorKind::TooMany, path, &Value::from(found), detail)
        }
        ValueFaultKind::Type { value, detail } => {
            FieldError::new(FieldErrorKind::TypeInvalid, path, &value, detail)
        }
        ValueFaultKind::Invalid { value, detail } => {
            FieldError::new(FieldErrorKind::Invalid, path, &value, detail)
        }
    }
}

/// The texts of the values that there are, as many as a fault shows.
fn shown_values(values: &[Value]) -> Vec<Cow<'_, str>> {
    let mut left = MAX_SHOWN_BYTES;
    let texts = values.iter().map_while(|value| {
        let text = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(beginning(other)),
        };
        let is_shown = left > 0;
        left = left.saturating_sub(text.len() + 4);
        is_shown.then_some(text)
    });
    texts.collect()
}
