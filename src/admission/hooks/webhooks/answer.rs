//! The answers of webhooks (HK-30, HK-31, HK-39, HK-40). Pure.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use crate::admission::hooks::client::{ReviewForm, ReviewVersion};
use crate::api::status::{Status, StatusCause, StatusDetails, StatusReason};
use crate::api::text::quoting::go_quote;
use crate::api::text::truncation::truncated;
use crate::documents::types;
use crate::schema::ObjectType;

/// Returns the form of admission reviews in a version.
pub(super) fn form(version: ReviewVersion) -> ReviewForm {
    ReviewForm {
        group: "admission.k8s.io",
        kind: "AdmissionReview",
        version,
    }
}

static REVIEW: LazyLock<ObjectType> =
    LazyLock::new(|| types(include_str!("reviews.txt")).object_type("admission.AdmissionReview"));

/// The most bytes of the reason of a refusal.
const REASON_BYTES_MAX: usize = 1024;

/// The answer of a webhook whose envelope is in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Whether the request is allowed.
    pub is_allowed: bool,
    /// The Status of a refusal, as it was sent.
    pub result: Json,
    /// The patch, only of mutating webhooks.
    pub patch: Vec<u8>,
    /// The type of the patch.
    pub patch_type: String,
    /// Annotations for the audit log, without the name of the webhook.
    pub audit_annotations: Vec<(String, String)>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The reason why an answer counts as a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadAnswer {
    /// The body is not a review of the version.
    Unreadable(String),
    /// The review does not answer the request.
    Invalid(String),
}

/// Reads the body of an answer.
///
/// # Errors
/// [`BadAnswer`].
pub fn read(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
) -> Result<Answer, BadAnswer> {
    let review = form(version).read(body, &REVIEW);
    let review = review.map_err(BadAnswer::Unreadable)?;
    let invalid = BadAnswer::Invalid;
    let Some(response) = review.response() else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    review.check_uid(uid).map_err(invalid)?;
    review.check_form().map_err(invalid)?;
    let text = |name: &str| response.get(name).and_then(Json::as_str);
    let patch = text("patch").unwrap_or_default();
    // The type has the patch as bytes, so it is base64.
    let patch = BASE64_STANDARD.decode(patch).unwrap_or_default();
    let patch_type = text("patchType");
    let (patch, patch_type) = match (review.is_v1(), is_mutating) {
        (true, true) => of_mutating(patch, patch_type).map_err(invalid)?,
        (true, false) => {
            let member = match (patch.is_empty(), patch_type) {
                (true, None) => None,
                (false, _) => Some("patch"),
                (true, Some(_)) => Some("patchType"),
            };
            if let Some(member) = member {
                return Err(invalid(format!(
                    "validating webhook may not return response.{member}"
                )));
            }
            (Vec::new(), String::new())
        }
        (false, true) => (patch, "JSONPatch".to_owned()),
        (false, false) => (Vec::new(), String::new()),
    };
    let list = |name: &str| response.get(name);
    let annotations = list("auditAnnotations").and_then(Json::as_object);
    let annotations = annotations.into_iter().flatten();
    let warnings = list("warnings").and_then(Json::as_array);
    Ok(Answer {
        is_allowed: response.get("allowed") == Some(&Json::Bool(true)),
        result: response.get("status").cloned().unwrap_or_default(),
        patch,
        patch_type,
        audit_annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        warnings: warnings
            .into_iter()
            .flatten()
            .filter_map(|warning| Some(warning.as_str()?.to_owned()))
            .collect(),
    })
}

/// Checks the patch of a mutating webhook in v1: it comes with its type.
fn of_mutating(patch: Vec<u8>, patch_type: Option<&str>) -> Result<(Vec<u8>, String), String> {
    match (patch.is_empty(), patch_type) {
        (_, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, None) => {
            Err("webhook returned response.patch but not response.patchType".to_owned())
        }
        (true, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (_, given) => Ok((patch, given.unwrap_or_default().to_owned())),
    }
}

/// Returns the Status of a refusal by the webhook of this name (HK-31).
pub fn refusal(webhook: &str, result: &Json) -> Status {
    let text = |name: &str| result.get(name).and_then(Json::as_str).unwrap_or_default();
    let denied = format!("admission webhook {} denied the request", go_quote(webhook));
    let (message, reason) = (text("message"), text("reason"));
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = match result.get("code").and_then(Json::as_i64).unwrap_or(0) {
        ..400 => 400,
        // HTTP has no such codes (D-108).
        code => u16::try_from(code)
            .ok()
            .filter(|code| *code < 1000)
            .unwrap_or(500),
    };
    let reason = truncated(reason.to_owned(), REASON_BYTES_MAX);
    let status = Status::failure(code, StatusReason::from(reason), message);
    match result.get("details").filter(|found| found.is_object()) {
        Some(found) => status.with_details(details(found)),
        None => status,
    }
}

fn details(found: &Json) -> StatusDetails {
    let text = |of: &Json, name: &str| {
        let text = of.get(name).and_then(Json::as_str);
        text.unwrap_or_default().to_owned()
    };
    let causes = found.get("causes").and_then(Json::as_array);
    let causes = causes.into_iter().flatten();
    let seconds = found.get("retryAfterSeconds").and_then(Json::as_u64);
    StatusDetails {
        name: text(found, "name"),
        group: text(found, "group"),
        kind: text(found, "kind"),
        uid: text(found, "uid"),
        causes: causes
            .map(|cause| StatusCause {
                reason: text(cause, "reason"),
                message: text(cause, "message"),
                field: text(cause, "field"),
            })
            .collect(),
        retry_after_seconds: seconds
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(response: &Json, is_mutating: bool) -> Result<Answer, BadAnswer> {
        let review = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        });
        let body = serde_json::to_vec(&review).unwrap();
        read(&body, ReviewVersion::V1, "u", is_mutating)
    }

    fn invalid(answer: Result<Answer, BadAnswer>) -> String {
        match answer {
            Err(BadAnswer::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_type_of_reviews_is_known_hk_30() {
        assert!(REVIEW.found().is_some());
    }

    #[test]
    fn envelopes_are_checked_in_the_words_of_kubernetes_hk_40() {
        for (response, is_mutating, text) in [
            (json!(null), false, "webhook response was absent"),
            (
                json!({"uid": "x"}),
                false,
                "expected response.uid=\"u\", got \"x\"",
            ),
            (
                json!({"uid": "u", "patch": "W10="}),
                true,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                json!({"uid": "u", "patchType": "JSONPatch"}),
                true,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                json!({"uid": "u", "patch": "W10=", "patchType": "JSONPatch"}),
                false,
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(invalid(answered(&response, is_mutating)), text);
        }
        let none = read(b"{}", ReviewVersion::V1, "u", false);
        assert_eq!(invalid(none), "webhook response was absent");
        let body = br#"{"kind":"AdmissionReview","response":{"uid":"u"}}"#;
        assert_eq!(
            invalid(read(body, ReviewVersion::V1, "u", false)),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, \
             Kind=AdmissionReview"
        );
        let beta = br#"{"response":{"allowed":true,"patch":"W10="}}"#;
        let beta = read(beta, ReviewVersion::V1Beta1, "u", true).unwrap();
        assert!(beta.is_allowed && beta.patch_type == "JSONPatch");
    }

    #[test]
    fn bodies_that_are_no_reviews_are_unreadable_hk_39() {
        for (body, text) in [
            (
                r#"{"response":{"allowed":"yes"}}"#,
                "json: cannot unmarshal string into Go struct field \
                 AdmissionResponse.response.allowed of type bool",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
                "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            ),
        ] {
            let read = read(body.as_bytes(), ReviewVersion::V1, "u", false);
            assert_eq!(read, Err(BadAnswer::Unreadable(text.to_owned())));
        }
    }

    #[test]
    fn refusals_keep_code_reason_and_details_hk_31() {
        for (result, code, message) in [
            (json!(null), 400, "denied the request without explanation"),
            (
                json!({"code": 200, "message": "m"}),
                400,
                "denied the request: m",
            ),
            (
                json!({"code": 403, "reason": "Forbidden"}),
                403,
                "denied the request: Forbidden",
            ),
            (
                json!({"code": 700, "message": "m"}),
                700,
                "denied the request: m",
            ),
            (
                json!({"code": -1, "message": "m"}),
                400,
                "denied the request: m",
            ),
            (
                json!({"code": 1000, "message": "m"}),
                500,
                "denied the request: m",
            ),
            (
                json!({"code": i32::MAX, "message": "m"}),
                500,
                "denied the request: m",
            ),
        ] {
            let status = refusal("w.example.com", &result);
            let message = format!("admission webhook \"w.example.com\" {message}");
            assert_eq!((status.code, status.message), (code, message), "{result}");
        }
        let later = json!({"code": 429, "details": {"retryAfterSeconds": 7}});
        assert_eq!(refusal("w", &later).retry_after_seconds(), 7);
    }
}
