//! The options for reading a pod's log (API-221).

use super::{OptionsError, Query};
use crate::field_error::FieldError;
use crate::text::go_time::{Decimals, GoTime};

/// Validates the parameters of a request for the log of this pod.
///
/// # Errors
/// 400 for invalid numbers and times, 422 with all values that are out of range.
pub fn check_log_options(query: &Query, pod: &str) -> Result<(), OptionsError> {
    let since_seconds = query.integer("sinceSeconds")?;
    let since_time = query.first("sinceTime").filter(|time| !time.is_empty());
    if let Some(time) = since_time {
        let read = GoTime::read(time, Decimals::Any);
        read.map_err(OptionsError::Unreadable)?;
    }
    let (tail_lines, limit_bytes) = (query.integer("tailLines")?, query.integer("limitBytes")?);
    let mut errors = Vec::new();
    if let Some(lines) = tail_lines.filter(|lines| *lines < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("tailLines", lines, detail));
    }
    let at_least_one = |name: &str, number: Option<i64>| {
        let number = number.filter(|number| *number < 1)?;
        Some(FieldError::invalid(name, number, "must be greater than 0"))
    };
    errors.extend(at_least_one("limitBytes", limit_bytes));
    if since_seconds.is_some() && since_time.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("[]", detail));
    } else {
        errors.extend(at_least_one("sinceSeconds", since_seconds));
    }
    // The feature gate of `stream` is off.
    if query.first("stream").is_some() {
        let detail = "may not be specified";
        errors.push(FieldError::forbidden("stream", detail));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(OptionsError::Invalid {
        group: "",
        kind: "PodLogOptions",
        name: pod.to_owned(),
        errors,
    })
}
