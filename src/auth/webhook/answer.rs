//! Answers of webhooks: the status of a review, or the error, in the words of Kubernetes' clients.
//! Pure.

use std::sync::LazyLock;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::review_version::{ReviewVersion, unregistered};
use crate::api::text::quoting::go_quote;
use crate::api::text::truncation::truncated;
use crate::documents::{KindAndVersion, Tree, types};
use crate::schema::ObjectType;

/// The most bytes of an error that a webhook has written itself.
const MESSAGE_BYTES_MAX: usize = 2048;

pub(super) struct Types {
    pub(super) access: ObjectType,
    pub(super) token: ObjectType,
    pub(super) status: ObjectType,
}

pub(super) static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let schema = types(include_str!("reviews.txt"));
    Types {
        access: schema.object_type("reviews.SubjectAccessReview"),
        token: schema.object_type("reviews.TokenReview"),
        status: schema.object_type("reviews.Status"),
    }
});

/// A kind of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewKind {
    Access,
    Token,
}

impl ReviewKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ReviewKind::Access => "SubjectAccessReview",
            ReviewKind::Token => "TokenReview",
        }
    }

    /// Returns the form of such reviews in a version.
    pub(super) fn in_version(self, version: ReviewVersion) -> ReviewForm {
        ReviewForm {
            kind: self,
            version,
        }
    }

    fn object_type(self) -> &'static ObjectType {
        match self {
            ReviewKind::Access => &TYPES.access,
            ReviewKind::Token => &TYPES.token,
        }
    }
}

/// The form in which a webhook gets reviews, and must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReviewForm {
    pub(super) kind: ReviewKind,
    pub(super) version: ReviewVersion,
}

impl ReviewForm {
    /// Returns the group and version.
    pub(super) fn api_version(self) -> String {
        let group = match self.kind {
            ReviewKind::Access => "authorization.k8s.io",
            ReviewKind::Token => "authentication.k8s.io",
        };
        format!("{group}/{}", self.version.name())
    }
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallError {
    /// The error in words.
    pub(super) text: String,
    /// Whether the webhook may answer if it is asked again (AC-26).
    pub(super) is_worth_retrying: bool,
    /// Whether the webhook was too slow.
    pub(super) is_late: bool,
}

impl CallError {
    /// An error that another attempt would not mend.
    pub(super) fn lasting(text: impl Into<String>) -> CallError {
        CallError {
            text: truncated(text.into(), MESSAGE_BYTES_MAX),
            is_worth_retrying: false,
            is_late: false,
        }
    }
}

/// Returns the status of the review in an answer. A status that is missing has no members.
///
/// # Errors
/// The error of the answer.
pub(super) fn status_of(
    answer: &crate::egress::Answer,
    form: ReviewForm,
) -> Result<Value, CallError> {
    let ReviewForm { kind, version } = form;
    let (status, body) = (answer.status, &answer.body);
    check(answer)?;
    let unknown = |why: String| {
        CallError::lasting(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let tree = Tree::read(body).map_err(unknown)?;
    let KindAndVersion {
        kind: name,
        api_version,
    } = tree.kind_and_version_of_answer().map_err(unknown)?;
    let own = form.api_version();
    let is_own = |wanted: &str, given: &str| given.is_empty() || given == wanted;
    if is_own(kind.name(), &name) && is_own(&own, &api_version) {
        let document = tree.typed(kind.object_type()).map_err(CallError::lasting)?;
        return Ok(document.value.get("status").cloned().unwrap_or_default());
    }
    if (&*name, &*api_version) == ("Status", "v1")
        && let Some(failure) = Failure::of(body)
    {
        return Err(failure.into_error(status, &answer.headers));
    }
    Err(CallError::lasting(
        if name == kind.name() && api_version == kind.in_version(version.other()).api_version() {
            version.unknown_conversion(&name)
        } else {
            unregistered(&name, &api_version)
        },
    ))
}

/// Checks that an answer is a success and has a body.
fn check(answer: &crate::egress::Answer) -> Result<(), CallError> {
    let (status, body) = (answer.status, &answer.body);
    if !(200..=206).contains(&status.as_u16()) {
        return Err(failed(status, &answer.headers, body));
    }
    if body.is_empty() {
        let given = text_of(&answer.headers, CONTENT_TYPE);
        let content_type = given.unwrap_or("application/json");
        return Err(CallError::lasting(format!(
            "0-length response with status code: {} and content type: {content_type}",
            status.as_u16()
        )));
    }
    Ok(())
}

/// Checks that the answer of a webhook is a success and has a body (HK-38, HK-39).
///
/// # Errors
/// The text of Kubernetes' clients.
pub fn successful_body(answer: &crate::egress::Answer) -> Result<(), String> {
    check(answer).map_err(|error| error.text)
}

fn text_of(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The error of an answer with a status code other than success.
fn failed(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> CallError {
    if let Some(failure) = Failure::of(body) {
        return failure.into_error(status, headers);
    }
    let content_type = text_of(headers, CONTENT_TYPE).unwrap_or_default();
    let is_text = content_type.to_ascii_lowercase().starts_with("text/");
    let beginning = body.get(..MESSAGE_BYTES_MAX).unwrap_or(body);
    let said = match is_text {
        true => String::from_utf8_lossy(beginning).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let code = status.as_u16();
    CallError {
        text: truncated(text_of_code(code, &said), MESSAGE_BYTES_MAX),
        is_worth_retrying: is_transient(code) || asks_to_wait(headers),
        is_late: code == 504,
    }
}

/// Whether a status comes from a fault that may pass: 429, and those of servers but 503, which only
/// counts as one with Retry-After.
fn is_transient(code: u16) -> bool {
    code == 429 || code >= 500 && code != 503
}

fn asks_to_wait(headers: &HeaderMap) -> bool {
    let seconds = text_of(headers, RETRY_AFTER).and_then(|text| text.parse::<i64>().ok());
    seconds.is_some_and(|seconds| seconds > 0)
}

/// A Status in an answer, of a failure.
struct Failure {
    message: String,
    reason: String,
    code: i64,
    seconds: i64,
}

impl Failure {
    fn of(body: &[u8]) -> Option<Failure> {
        let tree = Tree::read(body).ok()?;
        let of = tree.kind_and_version().ok()?;
        if of.kind != "Status" || !matches!(&*of.api_version, "" | "v1") {
            return None;
        }
        let status = tree.typed(&TYPES.status).ok()?.value;
        let text = |name| status.get(name).and_then(Value::as_str).unwrap_or_default();
        let seconds = status.pointer("/details/retryAfterSeconds");
        (text("status") == "Failure").then(|| Failure {
            message: text("message").to_owned(),
            reason: text("reason").to_owned(),
            code: status.get("code").and_then(Value::as_i64).unwrap_or(0),
            seconds: seconds.and_then(Value::as_i64).unwrap_or(0),
        })
    }

    fn into_error(self, status: StatusCode, headers: &HeaderMap) -> CallError {
        let is_named = match &*self.reason {
            "InternalError" | "Timeout" | "TooManyRequests" | "ServerTimeout" => true,
            "" | "Unknown" => matches!(self.code, 429 | 500 | 504),
            _ => false,
        };
        CallError {
            text: truncated(self.message, MESSAGE_BYTES_MAX),
            is_worth_retrying: is_named || self.seconds > 0 || asks_to_wait(headers),
            is_late: self.reason == "Timeout" || status.as_u16() == 504,
        }
    }
}

/// The words of a status code. `said` is the text of the body.
fn text_of_code(code: u16, said: &str) -> String {
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => said,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        code if code >= 500 => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                go_quote(said)
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            );
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Answer;

    fn answered(code: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            let value = value.parse().unwrap();
            (http::HeaderName::from_static(name), value)
        });
        Answer {
            status: StatusCode::from_u16(code).unwrap(),
            headers: headers.collect(),
            body: body.to_owned().into(),
        }
    }

    fn access(answer: &Answer) -> Result<Value, CallError> {
        status_of(answer, ReviewKind::Access.in_version(ReviewVersion::V1))
    }

    /// The error of an answer: its text, and whether another attempt is worth it.
    fn error(answer: &Answer) -> (String, bool) {
        let error = access(answer).unwrap_err();
        (error.text, error.is_worth_retrying)
    }

    const V1: &str = r#""kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1""#;

    #[test]
    fn the_types_of_answers_are_known_ac_25() {
        let types = [&TYPES.access, &TYPES.token, &TYPES.status];
        assert!(types.iter().all(|of| of.found().is_some()));
    }

    #[test]
    fn the_status_of_a_review_is_read_ac_38() {
        for body in [
            format!("{{{V1},\"status\":{{\"allowed\":true,\"more\":[1]}},\"spec\":1}}"),
            r#"{"status":{"allowed":true}}"#.to_owned(),
            "status: {allowed: true}".to_owned(),
        ] {
            let status = access(&answered(201, &[], &body)).unwrap();
            assert_eq!(status, serde_json::json!({"allowed": true}), "{body}");
        }
        assert_eq!(access(&answered(200, &[], "{}")), Ok(Value::Null));
    }

    #[test]
    fn the_answer_must_have_the_same_version_ac_25() {
        let beta = V1.replace("v1", "v1beta1");
        let said = error(&answered(200, &[], &format!("{{{beta}}}")));
        let text = "converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview): unknown \
                    conversion";
        assert_eq!(said, (text.to_owned(), false));
        let own = answered(200, &[], &format!("{{{beta}}}"));
        let read = status_of(&own, ReviewKind::Access.in_version(ReviewVersion::V1Beta1));
        assert_eq!(read, Ok(Value::Null));
        let pod = answered(200, &[], r#"{"kind":"Pod","apiVersion":"v1"}"#);
        let text = "no kind \"Pod\" is registered for version \"v1\"";
        assert_eq!(error(&pod), (text.to_owned(), false));
    }

    #[test]
    fn garbage_is_an_error_and_never_an_answer_ac_37() {
        let parse = "couldn't get version/kind; json parse error: ";
        for (body, expected) in [
            ("{", parse),
            ("[1]", parse),
            ("\u{0}\u{1}", parse),
            ("allowed", parse),
            (r#"{"kind":1}"#, parse),
            (
                "",
                "0-length response with status code: 200 and content type: application/json",
            ),
            (
                r#"{"status":{"allowed":"true"}}"#,
                "json: cannot unmarshal string into Go struct field \
                 SubjectAccessReviewStatus.status.allowed of type bool",
            ),
            (
                r#"{"status":true}"#,
                "json: cannot unmarshal bool into Go struct field ",
            ),
        ] {
            let (text, is_worth_retrying) = error(&answered(200, &[], body));
            assert!(text.starts_with(expected), "{body}: {text}");
            assert!(!is_worth_retrying, "{body}");
        }
    }

    #[test]
    fn codes_have_the_words_of_clients_and_some_are_worth_another_attempt_ac_26_ac_37() {
        let unknown =
            "an error on the server (\"unknown\") has prevented the request from succeeding";
        for (code, text, is_worth_retrying) in [
            (
                302,
                "the server responded with the status code 302 but did not return more information",
                false,
            ),
            (
                400,
                "the server rejected our request for an unknown reason",
                false,
            ),
            (
                401,
                "the server has asked for the client to provide credentials",
                false,
            ),
            (403, "unknown", false),
            (
                404,
                "the server could not find the requested resource",
                false,
            ),
            (
                429,
                "the server has received too many requests and has asked us to try again later",
                true,
            ),
            (500, unknown, true),
            (502, unknown, true),
            (
                503,
                "the server is currently unable to handle the request",
                false,
            ),
            (
                504,
                "the server was unable to return a response in the time allotted, but may still be processing the request",
                true,
            ),
        ] {
            let said = error(&answered(code, &[], "x"));
            assert_eq!(said, (text.to_owned(), is_worth_retrying), "{code}");
            let later = answered(code, &[("retry-after", "1")], "x");
            assert_eq!(error(&later), (text.to_owned(), true), "{code}");
            let now = answered(code, &[("retry-after", "0")], "x");
            assert_eq!(error(&now).1, is_worth_retrying, "{code}");
        }
        let text = answered(500, &[("content-type", "text/plain")], " \"no\" ");
        let expected =
            "an error on the server (\"\\\"no\\\"\") has prevented the request from succeeding";
        assert_eq!(error(&text), (expected.to_owned(), true));
    }

    #[test]
    fn a_status_in_the_body_is_the_error_ac_37() {
        let status = |rest: &str| {
            format!("{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",{rest}}}")
        };
        for (code, rest, is_worth_retrying) in [
            (500, r#""message":"m""#, false),
            (500, r#""message":"m","code":500"#, true),
            (200, r#""message":"m","reason":"InternalError""#, true),
            (
                403,
                r#""message":"m","reason":"Forbidden","code":403"#,
                false,
            ),
            (
                503,
                r#""message":"m","details":{"retryAfterSeconds":1}"#,
                true,
            ),
        ] {
            let said = error(&answered(code, &[], &status(rest)));
            assert_eq!(said, ("m".to_owned(), is_worth_retrying), "{code} {rest}");
        }
        let success = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
        let text = "no kind \"Status\" is registered for version \"v1\"";
        assert_eq!(error(&answered(200, &[], success)).0, text);
    }

    #[test]
    fn the_words_of_a_webhook_are_bounded_ac_37() {
        let long = "x".repeat(1 << 20);
        let said = error(&answered(500, &[("content-type", "text/plain")], &long)).0;
        assert!(said.len() < 3000, "{}", said.len());
        let status = format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\
             \"message\":\"{long}\"}}"
        );
        let said = error(&answered(500, &[], &status)).0;
        assert!(said.len() < 3000, "{}", said.len());
    }
}
