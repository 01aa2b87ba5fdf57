//! Pods: who may write what, and how long a deleted one has to end (http.md 6.2, API-112).

use serde_json::{Value, json};

use crate::api::object::Object;
use crate::registry::strategy::{Hooks, Ownership, put};

/// Kubernetes' default of `spec.terminationGracePeriodSeconds` (API-245).
const DEFAULT_GRACE_SECONDS: i64 = 30;

pub(super) fn adapt(ownership: &mut Ownership, hooks: &mut Hooks) {
    ownership.kept_by_status = &[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ];
    hooks.fill_create = Some(fill_create);
    hooks.grace = Some(grace);
}

/// A pod begins as pending, whatever its creator says of its status (http.md 6.2).
fn fill_create(object: &mut Object) {
    put(object, &["status"], json!({"phase": "Pending"}));
}

/// Nobody has to be waited for when the pod is on no node or has ended.
fn grace(object: &Object, asked: Option<i64>) -> i64 {
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
