//! The errors of values, and the field errors that requests show of them (CRD-150 to CRD-152).

use std::borrow::Cow;

use serde_json::Value;

use super::view::View;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::go_json;
use crate::text::quoting::beginning;

/// The limit of bytes of supported values that an error shows.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// The field of errors that kube-apiserver reports without a path.
pub const NO_PATH: &str = "<nil>";

/// An error of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueFault<'v> {
    /// The path in the value: `a.b[0].c`; empty for the whole value. A long path is cut.
    pub path: String,
    /// The type of the error.
    pub kind: ValueFaultKind<'v>,
}

/// The type of an error.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueFaultKind<'v> {
    /// A member is missing; the path includes it.
    Required,
    /// The value is not one of the supported ones.
    NotSupported {
        /// The value.
        value: View<'v>,
        /// The supported values.
        supported: &'v [Value],
    },
    /// A text has more characters than this limit.
    TooLong(i64),
    /// A list or an object has too many members.
    TooMany {
        /// The number of members.
        found: usize,
        /// The maximum number.
        limit: i64,
    },
    /// The value has another type or format.
    Type {
        /// The value to show.
        value: String,
        /// The error in words.
        detail: String,
    },
    /// The value breaks another rule.
    Invalid {
        /// The value to show.
        value: Shown<'v>,
        /// The error in words.
        detail: String,
    },
    /// As `Invalid`, reported for the object as a whole. The path names the value only in `detail`.
    General {
        /// The error in words.
        detail: String,
    },
}

/// A value in an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown<'v> {
    /// The checked value.
    Given(View<'v>),
    /// Another value, such as a number of items.
    Other(Value),
}

impl ValueFault<'_> {
    /// Returns the field error of an object. `above` is the path of the value in it, if the value
    /// is a part.
    pub fn into_error(self, above: Option<&str>) -> FieldError {
        let general = || above.unwrap_or(NO_PATH).to_owned();
        let path = match (above, self.path.trim_start_matches('.')) {
            (above, "") => above.unwrap_or(NO_PATH).to_owned(),
            (Some(above), below) => format!("{above}.{below}"),
            (None, below) => below.to_owned(),
        };
        match self.kind {
            ValueFaultKind::Required => FieldError::required(path, ""),
            ValueFaultKind::NotSupported { value, supported } => {
                let supported = shown_values(supported);
                let supported: Vec<&str> = supported.iter().map(|text| text.as_ref()).collect();
                let quoted = FieldError::not_supported("", "", &supported).detail;
                FieldError::new(
                    FieldErrorKind::NotSupported,
                    path,
                    &value.to_value(),
                    quoted,
                )
            }
            ValueFaultKind::TooLong(limit) => {
                let bytes = if limit == 1 { "byte" } else { "bytes" };
                let detail = match limit {
                    0.. => format!("may not be more than {limit} {bytes}"),
                    _ => "value is too long".to_owned(),
                };
                FieldError::new(FieldErrorKind::TooLong, path, &Value::Null, detail)
            }
            ValueFaultKind::TooMany { found, limit } => {
                let items = if limit == 1 { "item" } else { "items" };
                let detail = match limit {
                    0.. => format!("must have at most {limit} {items}"),
                    _ => "has too many items".to_owned(),
                };
                FieldError::new(FieldErrorKind::TooMany, path, &Value::from(found), detail)
            }
            ValueFaultKind::Type { value, detail } => {
                let value = Value::String(value);
                FieldError::new(FieldErrorKind::TypeInvalid, path, &value, detail)
            }
            ValueFaultKind::Invalid { value, detail } => {
                let value = match value {
                    Shown::Given(value) => value.to_value(),
                    Shown::Other(value) => value,
                };
                FieldError::new(FieldErrorKind::Invalid, path, &value, detail)
            }
            ValueFaultKind::General { detail } => FieldError::invalid(general(), "", detail),
        }
    }
}

/// Returns the texts of the supported values, up to the limit of bytes.
fn shown_values(values: &[Value]) -> Vec<Cow<'_, str>> {
    let mut left = MAX_SHOWN_BYTES;
    let texts = values.iter().map_while(|value| {
        let text = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => {
                let mut json = Vec::new();
                go_json::write_value(&mut json, other);
                Cow::Owned(beginning(String::from_utf8_lossy(&json)))
            }
        };
        let is_shown = left > 0;
        left = left.saturating_sub(text.len() + 4);
        is_shown.then_some(text)
    });
    texts.collect()
}
