//! The fields of custom resources that Scales show (CRD-159, CRD-188, CRD-191).

use serde_json::Value;

use crate::field_error::FieldError;
use crate::object::Object;
use crate::text::quoting::beginning;
use crate::typed::GoPlain;

/// The paths of a Scale in an object, as the definition has them: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub spec_replicas: String,
    /// The current number of replicas.
    pub status_replicas: String,
    /// The selector of the pods, as text.
    pub label_selector: Option<String>,
}

impl ScalePaths {
    /// Returns the names of the members on a path, which has no escapes (CRD-191).
    pub fn names(path: &str) -> Vec<&str> {
        path.strip_prefix('.').unwrap_or(path).split('.').collect()
    }

    /// Validates the numbers and the selector of an object (CRD-159).
    pub(super) fn errors(&self, object: &Object, with_spec: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if with_spec {
            errors.extend(replicas_error(object, &self.spec_replicas));
        }
        errors.extend(replicas_error(object, &self.status_replicas));
        if let Some(path) = &self.label_selector {
            let found = nested(object, path).and_then(|found| match found {
                None | Some(Value::String(_)) => Ok(()),
                Some(other) => Err(wrong_type(path, other, "string")),
            });
            let error = found.err();
            errors.extend(error.map(|why| FieldError::invalid(path, "", why)));
        }
        errors
    }
}

fn replicas_error(object: &Object, path: &str) -> Option<FieldError> {
    let found = nested(object, path).and_then(|found| match found {
        None => Ok(0),
        Some(value) => value
            .as_i64()
            .ok_or_else(|| wrong_type(path, value, "int64")),
    });
    let limit = i64::from(i32::MAX);
    match found {
        Err(why) => Some(FieldError::invalid(path, 0, why)),
        Ok(replicas) if replicas < 0 => {
            let detail = "should be a non-negative integer";
            Some(FieldError::invalid(path, replicas, detail))
        }
        Ok(replicas) if replicas > limit => {
            let detail = format!("should be less than or equal to {limit}");
            Some(FieldError::invalid(path, replicas, detail))
        }
        Ok(_) => None,
    }
}

/// Returns the value at a path.
///
/// # Errors
/// A value on the way is not an object.
fn nested<'o>(object: &'o Object, path: &str) -> Result<Option<&'o Value>, String> {
    let names = ScalePaths::names(path);
    let mut names = names.iter().enumerate();
    let Some((_, first)) = names.next() else {
        return Ok(None);
    };
    let Some(mut found) = object.0.get(*first) else {
        return Ok(None);
    };
    for (place, name) in names {
        match found {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(*name) {
                Some(below) => found = below,
                None => return Ok(None),
            },
            other => {
                let names = ScalePaths::names(path);
                let path = format!(".{}", names.get(..=place).unwrap_or_default().join("."));
                return Err(wrong_type(&path, other, "map[string]interface{}"));
            }
        }
    }
    Ok(Some(found))
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    let kind = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = beginning(GoPlain(value));
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
