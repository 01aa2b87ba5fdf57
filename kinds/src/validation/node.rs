//! Validation of RuntimeClasses.

use std::collections::HashSet;

use api::error_list::ErrorList;
use api::field::Field;
use api::names;
use api::object::Object;

use super::pods::containers::resources::validate_overhead;
use super::pods::scheduling::validate_tolerations;
use super::required::require_valid;
use super::selectors::validate_labels;
use crate::types::internal::internal_json;

/// Validates a RuntimeClass.
pub fn validate_runtimeclass(object: &Object, errors: &mut ErrorList) {
    let handler = Field::of(object, "handler");
    require_valid(&handler, names::dns_label, errors);
    let overhead = Field::of(object, "overhead");
    validate_overhead(&overhead, &overhead.member("podFixed"), errors);
    let scheduling = Field::of(object, "scheduling");
    validate_labels(&scheduling.member("nodeSelector"), errors);
    let tolerations = scheduling.member("tolerations");
    validate_tolerations(&tolerations, errors);
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(of_scheduler(&toleration)) {
            let json = || internal_json("core.v1.Toleration", toleration.value());
            errors.push(toleration.duplicate().showing_json(json));
        }
    }
}

/// Returns the members by which the scheduler distinguishes tolerations; `tolerationSeconds` does
/// not count.
fn of_scheduler(toleration: &Field<'_>) -> [String; 4] {
    ["key", "effect", "operator", "value"].map(|name| toleration.member(name).text().to_owned())
}

/// Validates an update of a RuntimeClass, whose handler is immutable.
pub fn validate_runtimeclass_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_runtimeclass(object, errors);
    let handler = Field::of(object, "handler");
    if handler.text() != Field::of(stored, "handler").text() {
        errors.push(handler.invalid_value(handler.text(), "field is immutable"));
    }
}
