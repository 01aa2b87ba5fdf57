//! ConfigMaps and Secrets that are marked `immutable` (http.md 6.2).

use serde_json::Value;

use api::metadata::FieldError;
use api::object::Object;

const WHY: &str = "field is immutable when `immutable` is set";

/// The forbidden changes of an update to a ConfigMap.
pub fn validate_configmap(object: &Object, stored: &Object) -> Vec<FieldError> {
    changes_of_immutable(object, stored, &["data", "binaryData"])
}

/// The forbidden changes of an update to an immutable object: of the mark itself, and of these
/// members.
pub(super) fn changes_of_immutable(
    object: &Object,
    stored: &Object,
    members: &[&str],
) -> Vec<FieldError> {
    let is_marked = |object: &Object| object.at(&["immutable"]) == Some(&Value::Bool(true));
    if !is_marked(stored) {
        return Vec::new();
    }
    let unmarked = (!is_marked(object)).then_some("immutable");
    let changed = members
        .iter()
        .copied()
        .filter(|m| object.at(&[m]) != stored.at(&[m]));
    unmarked
        .into_iter()
        .chain(changed)
        .map(|member| FieldError::forbidden(member, WHY))
        .collect()
}
