//! The structural schemas of definitions as documents show them (CRD-107, CRD-108). Pure.
//!
//! The third format of OpenAPI can express them as they are. The second one lacks alternatives,
//! `nullable`, and lists without items, and its documents leave out defaults. kubectl validates by
//! it, and so must find no restriction there that an object may break.

use serde_json::{Map, Value, json};

use crate::api::structural::canonicalize_numbers;
use crate::schema::OpenApiVersion;

const KEEPS_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const IS_EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The lists of value validations, of which only the third format has all.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The fields that embedded resources are shown with.
pub(super) struct Embedded {
    /// The format of the document.
    pub version: OpenApiVersion,
    /// apiVersion, kind and metadata.
    pub fields: [(&'static str, Value); 3],
}

/// Returns whether objects keep unknown fields at the root of a schema.
pub(super) fn keeps_unknown(schema: &Value) -> bool {
    schema.get(KEEPS_UNKNOWN) == Some(&Value::Bool(true))
}

/// Returns the schema of a definition in the form of a document. `own` are apiVersion and kind of
/// the object itself.
pub(super) fn published(
    mut schema: Value,
    embedded: &Embedded,
    own: [(&'static str, Value); 2],
) -> Value {
    let Some(members) = schema.as_object_mut() else {
        return json!({"type": "object"});
    };
    // Defaults, examples and allowed values are as Go prints them.
    canonicalize_numbers(members);
    embedded.convert(members);
    let metadata = embedded.fields.iter();
    let metadata = metadata.filter(|(name, _)| *name == "metadata").cloned();
    for (name, field) in metadata.chain(own) {
        add_property(members, name, field);
    }
    embedded.complete(members);
    schema
}

fn is_set(members: &Map<String, Value>, name: &str) -> bool {
    members.get(name) == Some(&Value::Bool(true))
}

fn add_property(members: &mut Map<String, Value>, name: &str, schema: Value) {
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name.to_owned(), schema);
    }
}

impl Embedded {
    /// Converts a schema and those below it. The caller completes an embedded resource.
    fn convert(&self, members: &mut Map<String, Value>) {
        match self.version {
            OpenApiVersion::V2 => weaken(members),
            OpenApiVersion::V3 => {
                unfold(members);
                strip_alternatives(members);
            }
        }
        let properties = members.get_mut("properties").and_then(Value::as_object_mut);
        let properties = properties.into_iter().flat_map(Map::values_mut);
        properties.for_each(|schema| self.convert_part(schema));
        for name in ["items", "additionalProperties"] {
            members
                .get_mut(name)
                .into_iter()
                .for_each(|schema| self.convert_part(schema));
        }
    }

    fn convert_part(&self, schema: &mut Value) {
        if let Some(members) = schema.as_object_mut() {
            self.convert(members);
            self.complete(members);
        }
    }

    /// Adds the fields of an embedded resource. kubectl would refuse unknown fields if the second
    /// format showed some of those that an object may have.
    fn complete(&self, members: &mut Map<String, Value>) {
        let hides = self.version == OpenApiVersion::V2 && is_set(members, KEEPS_UNKNOWN);
        if hides || !is_set(members, IS_EMBEDDED) {
            return;
        }
        for (name, field) in &self.fields {
            add_property(members, name, field.clone());
        }
        let required = members.entry("required").or_insert_with(|| json!([]));
        for name in ["kind", "apiVersion"] {
            if let Some(required) = required.as_array_mut()
                && !required.iter().any(|known| known == name)
            {
                required.push(name.into());
            }
        }
    }
}

/// Writes out that a value is an integer or a string, unless the schema does so itself.
fn unfold(members: &mut Map<String, Value>) {
    if !is_set(members, INT_OR_STRING) {
        return;
    }
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let first = members.get("allOf").and_then(|all| all.get(0));
    let is_written = |schema: Option<&Value>| schema == Some(&both);
    if is_written(members.get("anyOf")) || is_written(first.and_then(|first| first.get("anyOf"))) {
        return;
    }
    if !members.contains_key("anyOf") {
        members.insert("anyOf".to_owned(), both);
        return;
    }
    let all = members.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, json!({"anyOf": both}));
    }
}

/// Removes the parts of a value validation that documents do not show.
fn strip(validation: &mut Value) {
    let Some(members) = validation.as_object_mut() else {
        return;
    };
    members.remove("additionalProperties");
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.into_iter().flat_map(Map::values_mut);
    properties.for_each(strip);
    members.get_mut("items").into_iter().for_each(strip);
    strip_alternatives(members);
}

fn strip_alternatives(members: &mut Map<String, Value>) {
    for name in ALTERNATIVES {
        let alternatives = members.get_mut(name).and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(strip);
    }
    members.get_mut("not").into_iter().for_each(strip);
}

/// Removes the restrictions that the second format cannot express, from one schema.
fn weaken(members: &mut Map<String, Value>) {
    for name in ALTERNATIVES.into_iter().chain(["not", "default"]) {
        members.remove(name);
    }
    let is_open = is_set(members, KEEPS_UNKNOWN);
    let is_nullable = members.remove("nullable") == Some(Value::Bool(true));
    if is_nullable || is_open {
        // kubectl would take the shown fields and items for all that may be there.
        members.remove("items");
        members.remove("properties");
    }
    let kind = members.get("type").and_then(Value::as_str);
    let is_unknown_list = kind == Some("array") && !members.contains_key("items");
    if is_nullable || is_unknown_list || is_open && kind == Some("object") {
        members.remove("type");
    }
    let is_nullable = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    let Some(Value::Array(mut required)) = members.remove("required") else {
        return;
    };
    let properties = members.get("properties").and_then(Value::as_object);
    required.retain(|name| {
        let property = name.as_str().and_then(|name| properties?.get(name));
        !property.is_some_and(is_nullable)
    });
    let has_nullable_values = members.get("additionalProperties").is_some_and(is_nullable);
    if !required.is_empty() && !has_nullable_values {
        members.insert("required".to_owned(), required.into());
    }
}
