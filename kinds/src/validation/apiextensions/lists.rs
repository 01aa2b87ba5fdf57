//! Validation of list types and map types (CRD-34 to CRD-36).

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldError;

use super::MAX_ERRORS;
use super::options::Options;
use crate::types::internal::internal_schemas_json;
use api::error_list::ErrorList;

const MAP_TYPES: [&str; 2] = ["atomic", "granular"];
const LIST_TYPES: [&str; 3] = ["atomic", "set", "map"];

/// Validates that a schema with a list type or a map type has the matching type.
fn validate_type(schema: &Field<'_>, wanted: &str, because: &str, errors: &mut ErrorList) {
    let kind = schema.member("type");
    let detail = format!("must be {wanted} if {because} is specified");
    match kind.text() {
        "" => errors.push(kind.required(detail)),
        found if found == wanted => {}
        _ => errors.push(kind.invalid(detail)),
    }
}

/// Validates the map type.
pub fn validate_map_type(schema: &Field<'_>, errors: &mut ErrorList) {
    let map_type = schema.member("x-kubernetes-map-type");
    if !map_type.is_set() {
        return;
    }
    validate_type(schema, "object", "x-kubernetes-map-type", errors);
    if !MAP_TYPES.contains(&map_type.text()) {
        errors.push(map_type.not_supported(&MAP_TYPES));
    }
}

/// Validates the list type and its keys.
pub fn validate_list_type(schema: &Field<'_>, options: Options, errors: &mut ErrorList) {
    let list_type = schema.member("x-kubernetes-list-type");
    let kind = list_type.text();
    if list_type.is_set() {
        let before = errors.reported();
        validate_type(schema, "array", "x-kubernetes-list-type", errors);
        let is_list = errors.reported() == before;
        if is_list && options.require_atomic_sets && kind == "set" {
            validate_set(schema, errors);
        }
        if !LIST_TYPES.contains(&kind) {
            errors.push(list_type.not_supported(&LIST_TYPES));
        }
    }
    let keys = schema.member("x-kubernetes-list-map-keys");
    if !keys.is_empty() && kind != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type.is_set() {
            true => list_type.invalid(detail),
            false => list_type.required(detail),
        });
    }
    if kind == "map" {
        validate_map(schema, errors);
    }
    if options.require_map_keys && matches!(kind, "map" | "set") {
        validate_presence(schema, kind, errors);
    }
}

/// Validates that items of a set are atomic, since they are compared as a whole.
fn validate_set(schema: &Field<'_>, errors: &mut ErrorList) {
    let items = schema.member("items");
    let kind = items.member("type");
    let list_type = items.member("x-kubernetes-list-type");
    let map_type = items.member("x-kubernetes-map-type");
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    match kind.text() {
        "array" if list_type.is_set() && list_type.text() != "atomic" => {
            errors.push(list_type.invalid(detail));
        }
        "object" if map_type.text() != "atomic" => {
            // As in kube-apiserver, the error shows the list type.
            let shown = list_type.value().cloned().unwrap_or_default();
            errors.push(map_type.invalid_value(shown, detail));
        }
        _ => {}
    }
}

/// Validates that items of a list with keys are objects that have these keys.
fn validate_map(schema: &Field<'_>, errors: &mut ErrorList) {
    let keys = schema.member("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
    }
    let items = schema.member("items");
    let kind = items.member("type");
    match items.value() {
        None => {
            errors.push(items.required("must have a schema if x-kubernetes-list-type is map"));
            return;
        }
        Some(value) if !value.is_object() => {
            let shown = internal_schemas_json(Some(value));
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(FieldError::invalid_document(items.path(), &shown, detail));
            return;
        }
        Some(_) if kind.text() != "object" => {
            errors.push(kind.invalid_value(
                kind.text(),
                "must be object if parent array's x-kubernetes-list-type is map",
            ));
            return;
        }
        Some(_) => {}
    }
    let properties = items.member("properties");
    let mut seen = HashSet::new();
    for key in keys.items() {
        if errors.reported() >= MAX_ERRORS {
            return;
        }
        let property = properties.key(key.text());
        let of = property.member("type");
        if !property.is_set() {
            errors.push(keys.invalid("entries must all be names of item properties"));
        } else if matches!(of.text(), "array" | "object") {
            // As in kube-apiserver, the error shows the type of the items.
            errors.push(of.invalid_value(
                kind.text(),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            ));
        }
        if !seen.insert(key.text()) {
            errors.push(keys.invalid("must not contain duplicate entries"));
        }
    }
}

/// Validates that neither items nor their keys can be null or absent.
fn validate_presence(schema: &Field<'_>, kind: &str, errors: &mut ErrorList) {
    let items = schema.member("items");
    let nullable = items.member("nullable");
    if nullable.is_true() {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(nullable.forbidden(detail));
    }
    if kind != "map" {
        return;
    }
    let required = items.member("required");
    let required: HashSet<&str> = required
        .list()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    let keys = schema.member("x-kubernetes-list-map-keys");
    let properties = items.member("properties");
    for key in keys.items() {
        if errors.reported() >= MAX_ERRORS {
            return;
        }
        let property = properties.key(key.text());
        if !property.is_set() {
            continue;
        }
        let default = property.member("default");
        if !required.contains(key.text()) && !default.is_set() {
            errors.push(default.required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be \
                 a required property",
            ));
        }
        let nullable = property.member("nullable");
        if nullable.is_true() {
            errors.push(nullable.forbidden(
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}
