//! The columns of `certificates.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use api::text::human_duration::human_duration;
use serde_json::Value;

use super::{NONE, computed, condition, list, text, text_or};

/// Returns the columns of CertificateSigningRequests.
pub fn certificatesigningrequests() -> Vec<Column> {
    let signer = computed(|request, _| text_or(request.text(&["spec", "signerName"]), NONE).into());
    let duration = computed(|request, _| {
        let seconds = request.at(&["spec", "expirationSeconds"]);
        match seconds.and_then(Value::as_i64) {
            Some(seconds) => human_duration(seconds).into(),
            None => NONE.into(),
        }
    });
    let state = computed(|request, _| state(request).into());
    vec![
        Column::name(),
        Column::age(),
        Column::text("SignerName", "Name of the requested signer.", signer),
        Column::text(
            "Requestor",
            "User who made the request.",
            text("spec.username"),
        ),
        Column::text(
            "RequestedDuration",
            OfField("certificates.v1.CertificateSigningRequestSpec.expirationSeconds"),
            duration,
        ),
        Column::text(
            "Condition",
            "Whether the request is approved, denied, failed or issued.",
            state,
        ),
    ]
}

fn state(request: &Object) -> String {
    let conditions = list(request, &["status", "conditions"]);
    let has = |kind| condition(conditions, kind).is_some();
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !request.text(&["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}
