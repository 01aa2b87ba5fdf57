//! Secrets: the type has a default and never changes, plain text is converted to base64 (API-254).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::immutable::changes_of_immutable;
use api::metadata::FieldError;
use api::object::Object;
use api::object::put;

const DEFAULT_TYPE: &str = "Opaque";

/// Sets the default type, and converts plain text to base64.
pub fn prepare(object: &mut Object) {
    if object.text(&["type"]).is_empty() {
        put(object, &["type"], DEFAULT_TYPE.into());
    }
    let Some(Value::Object(texts)) = object.0.remove("stringData") else {
        return;
    };
    for (name, text) in &texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        put(object, &["data", name], encoded.into());
    }
}

/// The forbidden changes of an update to a Secret.
pub fn validate_update(object: &Object, stored: &Object) -> Vec<FieldError> {
    let kind = object.text(&["type"]);
    let mut errors = Vec::new();
    if kind != stored.text(&["type"]) {
        errors.push(FieldError::invalid("type", kind, "field is immutable"));
    }
    errors.extend(changes_of_immutable(object, stored, &["data"]));
    errors
}
