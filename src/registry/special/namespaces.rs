//! Namespaces: filled in on creation, terminating before they are gone (API-224, http.md 6.2).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::metadata::FieldError;
use crate::api::object::Object;
use crate::registry::strategy::{Endpoint, Hooks, Ownership, put, whole_seconds};

/// The namespaces that the daemon itself keeps in existence (API-262).
pub const SYSTEM_NAMESPACES: &[&str] =
    &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The label that always names a namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The entry of `spec.finalizers` that stands for the contents of a namespace.
pub const CONTENT_FINALIZER: &str = "kubernetes";

const FINALIZERS: &[&str] = &["spec", "finalizers"];

pub(super) fn adapt(ownership: &mut Ownership, hooks: &mut Hooks) {
    ownership.kept_by_main = &[&["spec"], &["status"]];
    ownership.kept_by_finalize = &[&["status"]];
    hooks.fill_create = Some(fill_create);
    hooks.fill_update = Some(fill_update);
    hooks.validate_update = Some(validate_update);
    hooks.is_held = Some(is_held);
    hooks.mark = Some(mark);
}

fn fill_create(object: &mut Object) {
    put(object, &["status"], json!({"phase": "Active"}));
    let mut finalizers = finalizers_of(object);
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == CONTENT_FINALIZER)
    {
        finalizers.push(CONTENT_FINALIZER.into());
    }
    put(object, FINALIZERS, finalizers.into());
    label_with_name(object);
}

fn fill_update(object: &mut Object, _: &Object, _: Endpoint) {
    // A spec without finalizers is printed as an empty one.
    if finalizers_of(object).is_empty() {
        put(object, &["spec"], json!({}));
    }
    if object.text(&["status", "phase"]).is_empty() {
        put(object, &["status", "phase"], "Active".into());
    }
    label_with_name(object);
}

fn validate_update(object: &Object, stored: &Object, endpoint: Endpoint) -> Vec<FieldError> {
    if endpoint != Endpoint::Status {
        return Vec::new();
    }
    let phase = object.text(&["status", "phase"]);
    let (expected, why) = match stored.is_being_deleted() {
        false => (
            "Active",
            "may only be 'Active' if `deletionTimestamp` is empty",
        ),
        true => (
            "Terminating",
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        ),
    };
    let wrong = (phase != expected).then(|| FieldError::invalid("status.Phase", phase, why));
    wrong.into_iter().collect()
}

fn is_held(object: &Object) -> bool {
    !finalizers_of(object).is_empty()
}

/// The phase changes with the mark, and no grace is noted down.
fn mark(object: &mut Object, now: Timestamp) {
    object.set_meta("deletionTimestamp", &whole_seconds(now));
    put(object, &["status", "phase"], "Terminating".into());
}

fn finalizers_of(object: &Object) -> Vec<Value> {
    let list = object.at(FINALIZERS).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

fn label_with_name(object: &mut Object) {
    let name = object.name().to_owned();
    put(object, &["metadata", "labels", NAME_LABEL], name.into());
}
