//! What is refused of ControllerRevisions.

use api::field::Field;
use api::field_error::FieldError;
use api::object::Object;

use crate::validation::Faults;
use crate::validation::counts::{IMMUTABLE, validate_nonnegative};

/// The faults of a ControllerRevision.
pub fn validate_controllerrevision(object: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_nonnegative(&Field::of(object, "revision"), &mut faults);
    let data = Field::of(object, "data");
    match data.value() {
        None => faults.push(data.required("data is mandatory")),
        Some(value) if !value.is_object() => {
            faults.push(data.required("data must be a valid JSON object"));
        }
        Some(_) => {}
    }
    faults
}

/// The faults of a change to a ControllerRevision, whose data never changes.
pub fn validate_controllerrevision_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_nonnegative(&Field::of(object, "revision"), &mut faults);
    if !object.is_same_at(stored, &["data"]) {
        let (data, shown) = (Field::of(object, "data"), object.json_at(&["data"]));
        faults.push(FieldError::invalid_document(data.path(), &shown, IMMUTABLE));
    }
    faults
}
