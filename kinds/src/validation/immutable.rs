//! Validation of fields that must not change.

use api::error_list::ErrorList;
use api::field::Field;
use serde_json::Value;

/// The message about immutable fields.
pub const IMMUTABLE: &str = "field is immutable";

/// Validates that a value does not change.
pub fn validate_immutable(field: &Field<'_>, stored: &Field<'_>, errors: &mut ErrorList) {
    if !is_same(field.value(), stored.value()) {
        errors.push(field.invalid(IMMUTABLE));
    }
}

/// Reports whether two values are the same for Kubernetes, where an empty list or map equals an
/// absent one.
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
