//! Secrets: a type is filled in and never changes, plain text is taken over as base64 (API-254).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::immutable::changes_of_immutable;
use crate::api::metadata::FieldError;
use crate::api::object::Object;
use crate::registry::strategy::{Endpoint, Hooks, put};

const DEFAULT_TYPE: &str = "Opaque";

pub(super) fn adapt(hooks: &mut Hooks) {
    hooks.fill_create = Some(fill);
    hooks.fill_update = Some(|object, _, _| fill(object));
    hooks.validate_update = Some(validate_update);
}

fn fill(object: &mut Object) {
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

fn validate_update(object: &Object, stored: &Object, _: Endpoint) -> Vec<FieldError> {
    let kind = object.text(&["type"]);
    let mut errors = Vec::new();
    if kind != stored.text(&["type"]) {
        errors.push(FieldError::invalid("type", kind, "field is immutable"));
    }
    errors.extend(changes_of_immutable(object, stored, &["data"]));
    errors
}
