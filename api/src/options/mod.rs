//! The options of requests (http.md 3.1).
//!
//! Contains the parsing and validation of query parameters and option bodies. Input is query
//! strings and bodies; the result is typed options, or the error of invalid ones. Nothing here
//! knows objects, storage or HTTP connections.

mod delete;
mod list;
mod log;
mod query_text;
mod write;

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::field_error::FieldError;
use crate::percent;
use crate::text::go_duration;
use crate::text::quoting::go_quote;

pub use crate::field_validation::FieldValidation;
pub use crate::version::{list_version, object_version, parse_version, read_version};
pub use delete::{DeleteOptions, Propagation};
pub use list::{ListOptions, VersionMatchText};
pub use log::LogOptions;
pub use query_text::query_text;
pub(crate) use write::{MAX_FIELD_MANAGER_BYTES, manager_errors};
pub use write::{WriteOptions, WriteVerb, field_manager};

const META_GROUP: &str = "meta.k8s.io";

/// The reason why options are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// A parameter or a body can't be read, a 400.
    Unreadable(String),
    /// The options are invalid, a 422 (API-80).
    Invalid {
        /// The group of the kind.
        group: &'static str,
        /// The kind of the options.
        kind: &'static str,
        /// The object that the options are about, if the error names it.
        name: String,
        /// The errors.
        errors: Vec<FieldError>,
    },
}

/// The parameters of a query string, in order and percent-decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses a query string. Never fails, because unknown and malformed parameters are ignored
    /// (API-78).
    pub fn parse(text: &str) -> Query {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decode_part(name)?, decode_part(value)?))
            })
            .collect();
        Query { pairs }
    }

    /// Returns the first value of a parameter, the only one that counts (API-78).
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Returns a parameter as a boolean: absent, `0` and `false` are false, anything else is true
    /// (API-6).
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(is_yes)
    }

    /// Returns the text of a parameter, empty if absent.
    fn text(&self, name: &str) -> String {
        self.first(name).unwrap_or_default().to_owned()
    }

    /// Parses an integer. An absent parameter is `None`, an empty text is an error.
    fn integer(&self, name: &str) -> Result<Option<i64>, OptionsError> {
        self.first(name).map(parse_integer).transpose()
    }
}

fn parse_integer(text: &str) -> Result<i64, OptionsError> {
    use std::num::IntErrorKind;

    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = go_quote(text);
        OptionsError::Unreadable(format!("strconv.ParseInt: parsing {quoted}: {why}"))
    })
}

fn is_yes(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

/// Percent-decodes a name or value of a query string, where a plus stands for a space. Returns
/// `None` for a broken escape, whose parameter is ignored.
fn decode_part(text: &str) -> Option<String> {
    if text.contains('+') {
        percent::decoded(&text.replace('+', " ")).map(Cow::into_owned)
    } else {
        percent::decoded(text).map(Cow::into_owned)
    }
}

/// Returns the time limit that a request sets with the parameter `timeout`, at most `longest`.
/// `None` without the parameter (API-15).
///
/// # Errors
/// An invalid duration.
pub fn request_timeout(query: &Query, longest: Duration) -> Result<Option<Duration>, OptionsError> {
    let Some(text) = query.first("timeout").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let given = go_duration::parse(text).map_err(|why| {
        OptionsError::Unreadable(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    // A negative limit counts as none.
    let given = Duration::from_nanos(u64::try_from(given).unwrap_or_default());
    Ok((!given.is_zero()).then(|| given.min(longest)))
}

/// Validates `dryRun`. It may be repeated, but every value must be `All` (API-81).
fn validate_dry_run(values: &[&str]) -> Option<FieldError> {
    let known = values.iter().all(|value| *value == "All");
    let given: Vec<Value> = values.iter().map(|value| (*value).into()).collect();
    (!known).then(|| FieldError::not_supported("dryRun", given, &["All"]))
}

fn is_dry_run(values: &[&str]) -> bool {
    values.contains(&"All")
}

/// Refuses options of this kind if there are errors (API-80).
fn refuse(kind: &'static str, errors: Vec<FieldError>) -> Result<(), OptionsError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(OptionsError::Invalid {
        group: META_GROUP,
        kind,
        name: String::new(),
        errors,
    })
}

#[cfg(test)]
mod tests;
