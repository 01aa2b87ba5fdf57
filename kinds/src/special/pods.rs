//! Pods: initial status and grace period (http.md 6.2, API-112).

use serde_json::{Value, json};

use api::object::Object;
use api::object::put;

/// Kubernetes' default of `spec.terminationGracePeriodSeconds` (API-245).
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// A new pod is pending, whatever status the body has (http.md 6.2).
pub fn prepare_create(object: &mut Object) {
    put(object, &["status"], json!({"phase": "Pending"}));
}

/// The grace period is zero when the pod is on no node or has ended.
pub fn grace(object: &Object, asked: Option<i64>) -> i64 {
    let ended = matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed");
    if ended || object.text(&["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let own = object.at(&["spec", "terminationGracePeriodSeconds"]);
    let own = own.and_then(Value::as_i64).unwrap_or(DEFAULT_GRACE_SECONDS);
    match asked.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}
