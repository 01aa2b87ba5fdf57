//! Validation of whole schemas. The files for structural schemas, the dialect and defaults have the
//! parts.

use api::field::Field;
use api::structural::Budget;
use serde_json::Value;

use super::options::Options;
use super::{defaults, dialect, structural};
use crate::types::internal::invalid_struct;
use api::decode::is_deeper_than;
use api::error_list::ErrorList;

/// The limit on nested objects and lists in a schema (D-96). Trees that are read by such a schema
/// and completed with its defaults fit the stack of every thread.
const MAX_DEPTH: usize = 100;

/// The members of a schema in their order in the internal type, and whether the root may have them
/// when the `status` subresource is enabled (CRD-37). The type is checked between them.
const AT_ROOT: [(&str, bool); 42] = [
    ("id", false),
    ("$schema", false),
    ("$ref", false),
    ("description", true),
    ("type", true),
    ("nullable", false),
    ("format", true),
    ("title", true),
    ("default", false),
    ("maximum", true),
    ("exclusiveMaximum", true),
    ("minimum", true),
    ("exclusiveMinimum", true),
    ("maxLength", true),
    ("minLength", true),
    ("pattern", true),
    ("maxItems", true),
    ("minItems", true),
    ("uniqueItems", true),
    ("multipleOf", true),
    ("enum", false),
    ("maxProperties", false),
    ("minProperties", false),
    ("required", true),
    ("items", true),
    ("allOf", false),
    ("oneOf", false),
    ("anyOf", false),
    ("not", false),
    ("properties", true),
    ("additionalProperties", false),
    ("patternProperties", false),
    ("dependencies", false),
    ("additionalItems", false),
    ("definitions", false),
    ("externalDocs", true),
    ("example", true),
    ("x-kubernetes-embedded-resource", false),
    ("x-kubernetes-int-or-string", false),
    ("x-kubernetes-list-map-keys", false),
    ("x-kubernetes-list-type", false),
    ("x-kubernetes-map-type", false),
];

const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
    ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required \
    Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// The members that structural schemas do not support.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "definitions",
    "dependencies",
];

/// Validates a schema.
pub fn validate_schema(
    schema: &Field<'_>,
    has_status: bool,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    if !schema.is_set() {
        return;
    }
    if options.limit_depth && schema.value().is_some_and(is_too_deep) {
        let detail = format!("must not have more than {MAX_DEPTH} nested objects and lists");
        errors.push(schema.invalid_value("", detail));
        return;
    }
    let before = errors.reported();
    if has_status {
        validate_root_with_status(schema, errors);
    }
    if schema.member("nullable").is_true() {
        let nullable = schema.member("nullable");
        errors.push(nullable.forbidden("nullable cannot be true at the root"));
    }
    validate_parts(schema, options, budget, errors);
    if errors.reported() == before
        && options.require_structural
        && let Some(name) = schema.value().and_then(unsupported)
    {
        let detail = format!("OpenAPIV3Schema '{name}' is not supported");
        errors.push(schema.invalid_value("", detail));
    }
}

/// Returns whether a schema is nested too deeply to be stored.
pub fn is_too_deep(schema: &Value) -> bool {
    is_deeper_than(schema, MAX_DEPTH)
}

/// Reports whether a schema is structural.
pub fn is_structural(schema: &Field<'_>, budget: &Budget) -> bool {
    let has_errors = |schema: &Field<'_>| {
        let check =
            |errors: &mut ErrorList| structural::validate_structural(schema, budget, errors);
        !ErrorList::of(check).is_empty()
    };
    let is_supported = |value: &Value| unsupported(value).is_none();
    schema.value().is_none_or(is_supported) && !has_errors(schema)
}

/// Validates a schema except its root: structure, defaults and dialect, each if the options require
/// it.
pub fn validate_parts(
    schema: &Field<'_>,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let Some(value) = schema.value() else {
        return;
    };
    let before = errors.reported();
    let mut is_known = false;
    if unsupported(value).is_none() {
        if options.require_structural {
            structural::validate_structural(schema, budget, errors);
        }
        if errors.reported() == before
            && (options.require_structural || options.require_pruned_defaults)
        {
            defaults::validate_defaults(schema, value, options, budget, errors);
        }
        is_known = options.require_structural && errors.reported() == before;
    }
    dialect::validate_dialect(schema, options, is_known, budget, errors);
}

/// Validates the root of a schema with the status subresource. Kubernetes validates status by the
/// schema of the member `status` alone, so the root may only have members whose loss does not
/// matter there.
fn validate_root_with_status(schema: &Field<'_>, errors: &mut ErrorList) {
    for (name, is_allowed) in AT_ROOT {
        let member = schema.member(name);
        if is_zero(&member) {
            continue;
        }
        if name == "type" {
            if member.text() != "object" {
                errors.push(member.invalid(
                    "only \"object\" is allowed as the type at the root of the schema if the \
                     status subresource is enabled",
                ));
                return;
            }
        } else if !is_allowed {
            let detail = format!(
                "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status \
                 subresource is enabled"
            );
            let type_name = "apiextensions.v1.JSONSchemaProps";
            errors.push(invalid_struct(schema, type_name, &detail));
            return;
        }
    }
}

/// Reports whether a member has its zero value.
fn is_zero(member: &Field<'_>) -> bool {
    match member.value() {
        None | Some(Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

/// Returns the name of a member that structural schemas do not support.
fn unsupported(schema: &Value) -> Option<&'static str> {
    let is_said = |name: &&&str| match schema.get(**name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    };
    if let Some(name) = UNSUPPORTED.iter().find(is_said) {
        return Some(match *name {
            "$schema" => "schema",
            name => name,
        });
    }
    let items = schema.get("items").and_then(Value::as_array);
    if items.is_some_and(|items| !items.is_empty()) {
        return Some("items");
    }
    children(schema).find_map(unsupported)
}

/// Returns the schemas in a schema.
fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties", "not"];
    let single = single.into_iter().filter_map(|name| schema.get(name));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let lists = lists.filter_map(|name| schema.get(name).and_then(Value::as_array));
    let maps = ["properties"].into_iter();
    let maps = maps.filter_map(|name| schema.get(name).and_then(Value::as_object));
    single
        .chain(lists.flatten())
        .chain(maps.flat_map(|members| members.values()))
}

/// Reports whether a schema has any extensions of Kubernetes.
pub fn has_extension(schema: &Value) -> bool {
    let members = schema.as_object().into_iter().flatten();
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let mut said = members.filter(|(name, _)| name.starts_with("x-kubernetes-"));
    said.any(|(_, value)| is_set(value)) || children(schema).any(has_extension)
}

/// Reports whether a schema has any defaults.
pub fn has_default(schema: &Value) -> bool {
    let is_said = schema.get("default").is_some_and(|value| !value.is_null());
    is_said || children(schema).any(has_default)
}
