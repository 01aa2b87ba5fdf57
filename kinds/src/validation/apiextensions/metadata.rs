//! The metadata of objects that a schema fills in (CRD-130, CRD-142).

use api::decode::type_value;
use api::document_paths::json_type;
use api::field_error::FieldError;
use api::metadata::validate_embedded;
use api::object::Object;
use serde_json::{Map, Value};

use crate::types::object_type;
use api::error_list::ErrorList;

/// Whether the members of metadata have their types.
pub fn validate_types(metadata: &Value, path: &str, errors: &mut ErrorList) {
    if !metadata.is_object() {
        let found = json_type(metadata);
        let detail = format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta");
        errors.push(FieldError::invalid(path, metadata.clone(), detail));
        return;
    }
    let read = type_value(metadata, object_type("meta.v1.ObjectMeta"));
    let wrong = match read {
        Ok(read) => read.refusal.map(|refusal| refusal.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(wrong) = wrong {
        errors.push(FieldError::invalid(path, metadata.clone(), wrong));
    }
}

/// Adds the errors of metadata whose members have their types.
pub fn validate_values(metadata: &Value, path: &str, errors: &mut ErrorList) {
    let mut members = Map::new();
    members.insert("metadata".to_owned(), metadata.clone());
    for mut fault in validate_embedded(&Object::of(members)) {
        if let Some(below) = fault.path.strip_prefix("metadata") {
            fault.path = format!("{path}{below}");
        }
        errors.push(fault);
    }
}
