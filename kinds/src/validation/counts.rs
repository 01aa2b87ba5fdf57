//! What is refused of numbers that count something, and of fields that never change.

use api::field::{Field, LazyError};
use serde_json::Value;

use api::error_list::ErrorList;

/// A number, if it is there, is not below zero.
pub fn validate_nonnegative(field: &Field<'_>, errors: &mut ErrorList) {
    if field.int().is_some_and(|number| number < 0) {
        errors.push(field.invalid("must be greater than or equal to 0"));
    }
}

/// These numbers below a struct, if they are there, are not below zero.
pub fn validate_all_nonnegative(parent: &Field<'_>, names: &[&str], errors: &mut ErrorList) {
    for name in names {
        validate_nonnegative(&parent.member(name), errors);
    }
}

/// A number that is absent when it is zero.
pub fn number(field: &Field<'_>) -> i64 {
    field.int().unwrap_or_default()
}

/// These numbers below a struct are not above another one.
pub fn validate_not_above(
    parent: &Field<'_>,
    names: &[&str],
    limit: &str,
    message: &str,
    errors: &mut ErrorList,
) {
    let limit = number(&parent.member(limit));
    for name in names {
        let counted = parent.member(name);
        if number(&counted) > limit {
            errors.push(counted.invalid_value(number(&counted), message));
        }
    }
}

/// The percentage that a text says: digits with `%` behind them.
fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Numbers without an end count as the largest one, as in Go.
    are_digits.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// A number that is not below zero, or a percentage.
pub fn validate_number_or_percent(field: &Field<'_>, errors: &mut ErrorList) {
    match field.value() {
        Some(Value::String(text)) if percent(text).is_none() => errors.push(field.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. \
             '1%',  or '93%', regex used for validation is '[0-9]+%')",
        )),
        Some(Value::String(_)) => {}
        _ => validate_nonnegative(field, errors),
    }
}

/// A percentage is not above 100.
pub fn validate_at_most_all(field: &Field<'_>, errors: &mut ErrorList) {
    if percent(field.text()).is_some_and(|percent| percent > 100) {
        errors.push(field.invalid("must not be greater than 100%"));
    }
}

/// Whether a number or a percentage is zero. Texts that are neither are read as zero.
pub fn is_zero(field: &Field<'_>) -> bool {
    match field.value() {
        Some(Value::String(text)) => {
            percent(text)
                .or_else(|| text.parse().ok())
                .unwrap_or_default()
                == 0
        }
        _ => number(field) == 0,
    }
}

/// The fault of a number, which is there, that may only grow.
pub fn decremented<'f>(field: &Field<'f>, stored: &Field<'_>) -> Option<LazyError<'f>> {
    let is_less = match (field.int(), stored.int()) {
        (None, Some(_)) => true,
        (Some(number), Some(stored)) => number < stored,
        (_, None) => false,
    };
    is_less.then(|| field.invalid_value(number(field), "cannot be decremented"))
}

/// The message about fields that never change.
pub const IMMUTABLE: &str = "field is immutable";

/// A single value never changes.
pub fn validate_immutable(field: &Field<'_>, stored: &Field<'_>, errors: &mut ErrorList) {
    if !is_same(field.value(), stored.value()) {
        errors.push(field.invalid(IMMUTABLE));
    }
}

/// Whether two values are the same for Kubernetes: an empty list or map is as good as none.
pub fn is_same(value: Option<&Value>, other: Option<&Value>) -> bool {
    match (value, other) {
        (Some(Value::Array(items)), Some(Value::Array(others))) => {
            items.len() == others.len()
                && items
                    .iter()
                    .zip(others)
                    .all(|(item, other)| is_same(Some(item), Some(other)))
        }
        (Some(Value::Object(members)), Some(Value::Object(others))) => {
            let is_in = |(name, value): (&String, &Value)| is_same(Some(value), others.get(name));
            members.iter().all(is_in)
                && others
                    .iter()
                    .filter(|(name, _)| !members.contains_key(*name))
                    .all(|(_, other)| is_same(None, Some(other)))
        }
        (Some(value), None) | (None, Some(value)) => match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            _ => false,
        },
        (value, other) => value == other,
    }
}
