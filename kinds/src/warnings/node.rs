//! Warnings about RuntimeClasses.

use api::field::Field;
use api::object::Object;

use super::nodes::reason_against;
use super::{Warnings, warn};

/// Returns the warnings about a RuntimeClass.
pub fn of_runtimeclass(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let scheduling = Field::of(object, "scheduling");
    let selector = scheduling.member("nodeSelector");
    for (label, _) in selector.entries() {
        if let Some(reason) = reason_against(label) {
            warn(&selector, reason, &warnings);
        }
    }
    warnings.take()
}
