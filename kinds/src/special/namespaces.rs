//! Namespaces: defaults on create, and termination before removal (API-224, http.md 6.2).

use jiff::Timestamp;
use serde_json::{Value, json};

use api::error_list::ErrorList;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use api::object::{put, whole_seconds};

/// The namespaces that the daemon itself creates (API-262).
pub const SYSTEM_NAMESPACES: &[&str] =
    &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The entry of `spec.finalizers` that keeps a namespace until its contents are gone.
pub const CONTENT_FINALIZER: &str = "kubernetes";

const FINALIZERS: &[&str] = &["spec", "finalizers"];

/// Sets the phase, finalizer and label of a new namespace (API-224).
pub fn prepare_create(object: &mut Object) {
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

/// Fills in the members that an update omits.
pub fn prepare_update(object: &mut Object, _: &Object) {
    // A spec without finalizers is printed as an empty spec.
    if finalizers_of(object).is_empty() {
        put(object, &["spec"], json!({}));
    }
    fill_in(object);
}

/// The phase depends only on the deletion (http.md 6.2).
pub fn validate_status(object: &Object, stored: &Object, errors: &mut ErrorList) {
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
    if phase != expected {
        errors.push(FieldError::invalid("status.Phase", phase, why));
    }
}

/// Whether its contents keep the namespace.
pub fn is_held(object: &Object) -> bool {
    !finalizers_of(object).is_empty()
}

/// Marks the namespace and changes its phase. No grace period is recorded.
pub fn mark(object: &mut Object, now: Timestamp) {
    object.set_meta("deletionTimestamp", &whole_seconds(now));
    put(object, &["status", "phase"], "Terminating".into());
}

fn finalizers_of(object: &Object) -> Vec<Value> {
    let list = object.at(FINALIZERS).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Fills in the phase and the label (API-224).
pub fn fill_in(object: &mut Object) {
    if object.text(&["status", "phase"]).is_empty() {
        put(object, &["status", "phase"], "Active".into());
    }
    label_with_name(object);
}

/// Labels a namespace that has a name with it.
fn label_with_name(object: &mut Object) {
    let name = object.name().to_owned();
    // A name that was made is no label yet when it is found to be wrong.
    let is_made = !object.meta("generateName").is_empty();
    if name.is_empty() || is_made && !names::label_value(&name).is_empty() {
        return;
    }
    put(object, &["metadata", "labels", NAME_LABEL], name.into());
}
