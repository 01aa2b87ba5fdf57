//! The options of requests (http.md 3.1).
//!
//! This folder owns the parsing and checking of query parameters and option bodies. Query strings
//! and bodies enter. Typed options leave, or a `Status` that refuses them. This folder must not
//! know objects, storage or HTTP connections.

mod delete;
mod list;
mod log;
mod write;

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::duration::parse_go_duration;
use crate::field_error::{FieldError, go_quote};
use crate::percent;
use crate::status::Status;

pub use crate::version::{list_version, object_version, parse_version, read_version};
pub use delete::{DeleteOptions, Propagation};
pub use list::{ListOptions, VersionMatchText};
pub use log::check_log_options;
pub use write::{FieldValidation, WriteOptions, WriteVerb, field_manager};
pub(crate) use write::{MAX_FIELD_MANAGER_BYTES, manager_errors};

const META_GROUP: &str = "meta.k8s.io";

/// The parameters of a query string, in order, percent-decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Splits a query string. It never fails, because unknown and malformed parameters are ignored
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

    /// The first value of a parameter, which is the one that is used (API-78).
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// A parameter as a boolean: absent, `0` and `false` are false, anything else is true (API-6).
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(is_yes)
    }

    /// The text of a parameter; empty when absent.
    fn text(&self, name: &str) -> String {
        self.first(name).unwrap_or_default().to_owned()
    }

    /// A whole number. An absent parameter is `None`, an empty text is an error.
    fn integer(&self, name: &str) -> Result<Option<i64>, Box<Status>> {
        self.first(name).map(parse_integer).transpose()
    }
}

fn parse_integer(text: &str) -> Result<i64, Box<Status>> {
    use std::num::IntErrorKind;

    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = go_quote(text);
        Box::new(Status::bad_request(format!(
            "strconv.ParseInt: parsing {quoted}: {why}"
        )))
    })
}

fn is_yes(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

/// Percent-decodes a name or value of a query string, where a plus stands for a space. `None` for a
/// broken escape, whose parameter is then ignored.
fn decode_part(text: &str) -> Option<String> {
    match text.contains('+') {
        true => percent::decoded(&text.replace('+', " ")).map(Cow::into_owned),
        false => percent::decoded(text).map(Cow::into_owned),
    }
}

/// The time limit that a request sets with its parameter `timeout`. It is `None` without the
/// parameter and at most `longest` (API-15).
///
/// # Errors
/// 400 for an invalid duration.
pub fn request_timeout(query: &Query, longest: Duration) -> Result<Option<Duration>, Box<Status>> {
    let Some(text) = query.first("timeout").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let given = parse_go_duration(text).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    Ok((!given.is_zero()).then(|| given.min(longest)))
}

/// `dryRun` may be repeated, but every value must be `All` (API-81).
fn validate_dry_run(values: &[&str]) -> Option<FieldError> {
    let known = values.iter().all(|value| *value == "All");
    let given: Vec<Value> = values.iter().map(|value| (*value).into()).collect();
    (!known).then(|| FieldError::not_supported("dryRun", given, &["All"]))
}

fn is_dry_run(values: &[&str]) -> bool {
    values.contains(&"All")
}

/// Refuses with 422 when there are errors (API-80).
fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Box<Status>> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Box::new(Status::invalid(META_GROUP, kind, "", errors)))
}

#[cfg(test)]
mod tests;
