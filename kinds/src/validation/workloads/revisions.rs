//! Validation of ControllerRevisions.

use api::field::Field;
use api::field_error::FieldError;
use api::object::Object;

use crate::validation::immutable::IMMUTABLE;
use crate::validation::numbers::validate_nonnegative;
use api::error_list::ErrorList;

/// Validates a ControllerRevision.
pub fn validate_controllerrevision(object: &Object, errors: &mut ErrorList) {
    validate_nonnegative(&Field::of(object, "revision"), errors);
    let data = Field::of(object, "data");
    match data.value() {
        None => errors.push(data.required("data is mandatory")),
        Some(value) if !value.is_object() => {
            errors.push(data.required("data must be a valid JSON object"));
        }
        Some(_) => {}
    }
}

/// Validates an update of a ControllerRevision, whose data is immutable.
pub fn validate_controllerrevision_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_nonnegative(&Field::of(object, "revision"), errors);
    if !object.is_same_at(stored, &["data"]) {
        let (data, shown) = (Field::of(object, "data"), object.json_at(&["data"]));
        errors.push(FieldError::invalid_document(data.path(), &shown, IMMUTABLE));
    }
}
