//! Field errors, in the wording of Go's `field` package (API-146 to API-149).

use serde_json::Value;

use crate::cost;
use crate::text::quoting::{GoQuoted, MAX_SHOWN_BYTES, beginning, go_quote, shown};
use crate::text::truncation::{truncated, truncated_display};

/// The most errors that are reported for one object. More would make the response many times longer
/// than the request.
pub const MAX_FIELD_ERRORS: usize = 100;

/// The limit on the texts of all errors of one object, in bytes. Further errors are not reported.
const MAX_FIELD_ERROR_BYTES: usize = 40 * 1024;

/// The limit on a whole document inside a message, in bytes. A response has at most one: the object
/// that a patch results in.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The limit on a path inside a message, in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 1024;

/// The type of a field error. It decides the phrase, the cause's reason and whether the message
/// shows the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// The field refers to something that does not exist.
    NotFound,
    /// The value is missing.
    Required,
    /// The value must be unique.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of the supported ones.
    NotSupported,
    /// The field must not be set here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The value has too many items.
    TooMany,
    /// The value is too short.
    TooShort,
    /// The value has the wrong type.
    TypeInvalid,
    /// The value could not be checked.
    Internal,
}

impl FieldErrorKind {
    /// Returns the phrase at the start of messages (API-146).
    pub fn phrase(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "Not found",
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
            FieldErrorKind::TooShort => "Too short",
            FieldErrorKind::Internal => "Internal error",
        }
    }

    /// Returns the reason in a cause (API-146).
    pub fn reason(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::TooShort => "FieldValueTooShort",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::Internal => "InternalError",
        }
    }

    /// Returns whether messages print the value (API-147).
    pub(crate) fn shows_value(self) -> bool {
        !matches!(
            self,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooShort
                | FieldErrorKind::Internal
        )
    }
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The path of the field: `metadata.finalizers[0]` (API-149).
    pub path: String,
    /// The value as messages print it, see [`shown`]. Empty for types that show no value.
    pub value: String,
    /// The error in words.
    pub detail: String,
}

impl FieldError {
    /// Returns an error that shows the value.
    pub fn new(
        kind: FieldErrorKind,
        path: impl Into<String>,
        value: &Value,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::showing(kind, path, shown(value), detail)
    }

    /// As [`FieldError::new`], for a value that is already printed.
    fn showing(
        kind: FieldErrorKind,
        path: impl Into<String>,
        value: String,
        detail: impl Into<String>,
    ) -> FieldError {
        cost::error_made();
        FieldError {
            kind,
            path: truncated(path.into(), MAX_PATH_BYTES),
            value,
            detail: truncated(detail.into(), MAX_SHOWN_BYTES),
        }
    }

    /// Returns the error for a value that breaks a rule.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::new(FieldErrorKind::Invalid, path, &value.into(), detail)
    }

    /// As [`FieldError::invalid`], for a whole document that is printed as a text. Formats only the
    /// beginning of a very long one.
    pub fn invalid_text(
        path: impl Into<String>,
        document: impl std::fmt::Display,
        detail: impl Into<String>,
    ) -> FieldError {
        let text = truncated_display(document, MAX_DOCUMENT_BYTES);
        let value = truncated_display(GoQuoted(&text), MAX_DOCUMENT_BYTES);
        FieldError::showing(FieldErrorKind::Invalid, path, value, detail)
    }

    /// As [`FieldError::invalid`], for a value that is printed as this JSON text. It is for
    /// documents whose order of members must be kept.
    pub fn invalid_document(
        path: impl Into<String>,
        json: &str,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::showing(FieldErrorKind::Invalid, path, beginning(json), detail)
    }

    /// Returns an error that leaves its value out, because it would be long.
    pub fn without_value(
        kind: FieldErrorKind,
        path: impl Into<String>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::showing(kind, path, String::new(), detail)
    }

    /// Returns the error for a missing value.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::showing(FieldErrorKind::Required, path, String::new(), detail)
    }

    /// Returns the error for a value that must not be set.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::showing(FieldErrorKind::Forbidden, path, String::new(), detail)
    }

    /// Returns the error for a value of more than `limit` bytes (API-147).
    pub fn too_long(path: impl Into<String>, limit: usize) -> FieldError {
        let detail = format!("may not be more than {limit} bytes");
        FieldError::showing(FieldErrorKind::TooLong, path, String::new(), detail)
    }

    /// Returns the error for a value that is not one of the supported ones (API-147).
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|text| go_quote(text)).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        FieldError::new(FieldErrorKind::NotSupported, path, &value.into(), detail)
    }

    /// Returns the message without the path, as in a cause (API-148).
    pub fn body(&self) -> String {
        let mut text = self.kind.phrase().to_owned();
        if self.kind.shows_value() && !self.value.is_empty() {
            text.push_str(": ");
            text.push_str(&self.value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// Returns the errors that are reported for one object. Does not evaluate further ones.
pub fn bounded(errors: impl IntoIterator<Item = FieldError>) -> Vec<FieldError> {
    let mut bytes = 0;
    let fits = move |error: &FieldError| {
        let has_room = bytes < MAX_FIELD_ERROR_BYTES;
        bytes += error.path.len() + error.value.len() + error.detail.len();
        has_room
    };
    let errors = errors.into_iter().take(MAX_FIELD_ERRORS);
    errors.take_while(fits).collect()
}

/// Joins the messages, each listed once, in brackets if there are several (API-148).
pub fn joined(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        // linear: `errors` is bounded by [`MAX_FIELD_ERRORS`].
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
