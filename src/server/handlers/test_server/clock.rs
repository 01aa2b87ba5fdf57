//! `/taffrail/v1/test/clock`: GET returns the time of the server, POST moves it forward.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::document;
use crate::api::status::Status;
use crate::api::text::go_duration;
use crate::server::handlers::Answered;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::test_controls::members::Members;
use crate::server::test_controls::{AdvanceError, TestClock};
use crate::transport::RequestBody;

/// The longest step: that of Go's durations, 292 years.
const STEP_MAX: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// Returns the time, and how far it is ahead of the machine's.
pub(super) fn get(scope: &RequestScope<'_>, clock: &TestClock) -> Answered {
    let form = scope.plain_form()?;
    let document = json!({
        "now": format!("{:.6}", clock.now()),
        "advanced": shown(clock.advanced()),
    });
    let document = document.to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

/// Moves the clock forward, and returns the time.
///
/// # Errors
/// 400 for a wrong member, or a time that no server has. The clock has not moved. 503 if the store
/// does not follow.
pub(super) async fn post(
    scope: &RequestScope<'_>,
    clock: &TestClock,
    body: RequestBody,
) -> Answered {
    let text = document(scope, body).await?;
    let by = step(&text).map_err(|fault| Box::new(Status::bad_request(fault)))?;
    clock.advance(by).await.map_err(|error| {
        Box::new(match error {
            AdvanceError::Refused(why) => Status::bad_request(format!("advance: {why}")),
            AdvanceError::Removal => Status::unavailable(error.to_string(), 1),
        })
    })?;
    get(scope, clock)
}

/// Reads by how much the clock is to be moved.
fn step(text: &[u8]) -> Result<Duration, String> {
    let value: Value =
        serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
    let members = Members::of("", &value, &["advance"])?;
    if members.value("advance").is_none() {
        return Err("advance: is missing; write a duration such as \"1h30m\"".to_owned());
    }
    let by = members.duration("advance", STEP_MAX)?;
    match by.is_zero() {
        true => Err("advance: must be more than 0s".to_owned()),
        false => Ok(by),
    }
}

/// Returns a duration as Go prints it. One that Go's type can't hold has hours only.
fn shown(duration: Duration) -> String {
    match i64::try_from(duration.as_nanos()) {
        Ok(nanos) => go_duration::printed(nanos),
        Err(_) => format!("{}h0m0s", duration.as_secs() / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_positive_duration_and_nothing_else() {
        let read = |text: &str| step(text.as_bytes());
        assert_eq!(
            read(r#"{"advance": "1h30m"}"#),
            Ok(Duration::from_secs(5400))
        );
        assert_eq!(read(r#"{"advance": "1ns"}"#), Ok(Duration::from_nanos(1)));
        for (text, expected) in [
            ("", "not JSON"),
            ("[]", "the document: must be an object"),
            ("{}", "advance: is missing"),
            (r#"{"advance": null}"#, "advance: is missing"),
            (r#"{"advance": 5}"#, "advance: must be a text"),
            (r#"{"advance": ""}"#, "advance: time: invalid duration"),
            (r#"{"advance": "x"}"#, "advance: time: invalid duration"),
            (r#"{"advance": "5"}"#, "advance: time: missing unit"),
            (r#"{"advance": "0s"}"#, "advance: must be more than 0s"),
            (
                r#"{"advance": "-1h"}"#,
                "advance: must be from 0s to 2562047h47m16.854775807s",
            ),
            (
                r#"{"advance": "1000000000h"}"#,
                "advance: time: invalid duration",
            ),
            (
                r#"{"advance": "1h", "to": 1}"#,
                "to: is not known; known are advance",
            ),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }

    #[test]
    fn a_duration_is_shown_as_in_go() {
        assert_eq!(shown(Duration::from_secs(5400)), "1h30m0s");
        assert_eq!(shown(Duration::ZERO), "0s");
        let years = Duration::from_secs(1000 * 365 * 86_400);
        assert_eq!(shown(years), "8760000h0m0s");
    }
}
