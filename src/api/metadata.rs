//! The rules for `metadata` on create and update (section 5 of http.md).

use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;

pub use crate::api::field_error::{FieldError, FieldErrorKind};

/// What is wrong with an object's metadata when it is created, in the order in which Kubernetes
/// looks (API-94, API-199 to API-208).
pub fn validate_create(_object: &Object, _definition: &ResourceDefinition) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with an object's metadata when it replaces `old` (API-103, 5.1).
pub fn validate_update(
    _new: &Object,
    _old: &Object,
    _definition: &ResourceDefinition,
) -> Vec<FieldError> {
    Vec::new()
}

/// Drops owner references that repeat an earlier one's uid; answers the warnings (API-207).
pub fn deduplicate_owners(_object: &mut Object) -> Vec<String> {
    Vec::new()
}
