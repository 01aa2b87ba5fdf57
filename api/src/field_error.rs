//! Errors of single fields, in the wording of Go's field package (API-146 to API-149).

use std::fmt::Write as _;

use serde_json::Value;

use crate::cost;
use crate::status::StatusCause;
use crate::truncated::{truncated, truncated_display};

/// At most this many faults are reported for one object. More would make the answer many times
/// larger than its request.
pub const MAX_FIELD_ERRORS: usize = 100;

/// The limit on the texts of all faults of one object. Further faults are not reported.
const MAX_FIELD_ERROR_BYTES: usize = 40 * 1024;

/// The limit on a value, a detail or a quoted text inside a message.
pub(crate) const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// The limit on a whole document inside a message. What a patch makes of an object is one, of which
/// an answer has no more.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The limit on a path inside a message.
pub(crate) const MAX_PATH_BYTES: usize = 1024;

/// The kind of a field's fault. It decides the phrase, the cause's reason and whether the value is
/// shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// It names something that doesn't exist.
    NotFound,
    /// It must be set.
    Required,
    /// It must be unique.
    Duplicate,
    /// It breaks a rule.
    Invalid,
    /// It is not one of the supported values.
    NotSupported,
    /// It may not be set here.
    Forbidden,
    /// It is too long.
    TooLong,
    /// It has too many items.
    TooMany,
    /// It is too short.
    TooShort,
    /// It is of the wrong type.
    TypeInvalid,
    /// It can't be checked.
    Internal,
}

impl FieldErrorKind {
    /// The phrase at the start of messages (API-146).
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

    /// The reason in a cause (API-146).
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

    /// Whether messages print the value (API-147).
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

/// One fault of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The kind of the fault.
    pub kind: FieldErrorKind,
    /// The path of the field: `metadata.finalizers[0]` (API-149).
    pub path: String,
    /// The value as it is printed, see [`shown`]. It is empty for kinds that show no value.
    pub value: String,
    /// The fault in words.
    pub detail: String,
}

impl FieldError {
    /// A fault that shows the value.
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

    /// A value that breaks a rule.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::new(FieldErrorKind::Invalid, path, &value.into(), detail)
    }

    /// As [`FieldError::invalid`], for a whole document that is printed as a text. Only the
    /// beginning of a very long one is needed.
    pub fn invalid_text(
        path: impl Into<String>,
        document: impl std::fmt::Display,
        detail: impl Into<String>,
    ) -> FieldError {
        let text = truncated_display(document, MAX_DOCUMENT_BYTES);
        let value = truncated_display(GoQuoted(&text), MAX_DOCUMENT_BYTES);
        FieldError::showing(FieldErrorKind::Invalid, path, value, detail)
    }

    /// As [`FieldError::invalid`], for a value that is printed as this JSON text. Use it for
    /// documents whose members have an order.
    pub fn invalid_document(
        path: impl Into<String>,
        json: &str,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::showing(FieldErrorKind::Invalid, path, beginning(json), detail)
    }

    /// A value that must be set.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::showing(FieldErrorKind::Required, path, String::new(), detail)
    }

    /// A value that may not be set.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::showing(FieldErrorKind::Forbidden, path, String::new(), detail)
    }

    /// A value of more than `limit` bytes (API-147).
    pub fn too_long(path: impl Into<String>, limit: usize) -> FieldError {
        let detail = format!("may not be more than {limit} bytes");
        FieldError::showing(FieldErrorKind::TooLong, path, String::new(), detail)
    }

    /// A value that is not one of the supported ones (API-147).
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|text| go_quote(text)).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        FieldError::new(FieldErrorKind::NotSupported, path, &value.into(), detail)
    }

    /// The message without the path, as a cause shows it (API-148).
    pub fn body(&self) -> String {
        let mut text = self.kind.phrase().to_owned();
        if self.kind.shows_value() {
            text.push_str(": ");
            text.push_str(&self.value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The cause of a Status (API-148).
    pub fn cause(&self) -> StatusCause {
        StatusCause {
            reason: self.kind.reason().to_owned(),
            message: self.body(),
            field: self.path.clone(),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// The faults that are reported for one object. Further faults are not evaluated.
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

/// All messages, each listed once, in brackets if there are several (API-148).
pub fn joined(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        // linear: few errors are told of.
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A value as messages print it: texts are quoted as in Go, everything else is compact JSON
/// (API-147). Long values are cut.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(go_number).unwrap_or_default()
        }
        other => beginning(other),
    }
}

/// A floating-point number as Go prints it: `3`, `1.5`, `1e+06`.
pub fn go_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{number}")
}

/// The part of a text that messages show.
pub fn beginning(text: impl std::fmt::Display) -> String {
    truncated_display(text, MAX_SHOWN_BYTES)
}

/// Text in double quotes with Go's escapes (`%q`). Long texts are cut.
pub fn go_quote(text: &str) -> String {
    beginning(GoQuoted(text))
}

/// Text in double quotes with Go's escapes (`%q`), however long it is.
pub struct GoQuoted<'t>(pub &'t str);

impl std::fmt::Display for GoQuoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\""),
                '\\' => f.write_str("\\\\"),
                '\x07' => f.write_str("\\a"),
                '\x08' => f.write_str("\\b"),
                '\x0c' => f.write_str("\\f"),
                '\n' => f.write_str("\\n"),
                '\r' => f.write_str("\\r"),
                '\t' => f.write_str("\\t"),
                '\x0b' => f.write_str("\\v"),
                ' '..='~' => f.write_char(c),
                '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(c)),
                _ if is_go_printable(c) => f.write_char(c),
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
                _ => write!(f, "\\U{:08x}", u32::from(c)),
            }?;
        }
        f.write_char('"')
    }
}

/// Whether Go prints a character unescaped. Beyond ASCII the standard library's table decides. The
/// letter in front keeps it from escaping combining marks, which Go prints.
pub fn is_go_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let mut pair = String::from("a");
    pair.push(c);
    pair.escape_debug().nth(1) == Some(c)
}
