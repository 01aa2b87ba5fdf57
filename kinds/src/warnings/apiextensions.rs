//! Warnings about unrecognized formats in the schemas of CustomResourceDefinitions.

use std::collections::HashSet;

use api::object::Object;
use api::structural::is_text_format;
use serde_json::{Map, Value};

use super::quoted;

/// Members of a schema that hold one schema, a list of schemas, and a map of schemas.
const ONE: [&str; 4] = ["items", "additionalProperties", "additionalItems", "not"];
const LISTS: [&str; 4] = ["items", "allOf", "oneOf", "anyOf"];
const MAPS: [&str; 4] = [
    "properties",
    "patternProperties",
    "definitions",
    "dependencies",
];

/// Returns the warnings about a CustomResourceDefinition: unrecognized formats that the stored one
/// does not have.
pub fn of_customresourcedefinition(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let mut formats = formats_of(object);
    let old: HashSet<&str> = stored.map(formats_of).into_iter().flatten().collect();
    formats.retain(|format| !old.contains(format));
    let text = |format: &&str| format!("unrecognized format {}", quoted(format));
    formats.iter().map(text).collect()
}

/// Returns the unrecognized formats of all versions.
fn formats_of(object: &Object) -> Vec<&str> {
    let mut formats = Vec::new();
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array);
    for version in versions.into_iter().flatten() {
        let schema = version.pointer("/schema/openAPIV3Schema");
        if let Some(Value::Object(schema)) = schema {
            find(schema, &mut formats);
        }
    }
    formats
}

/// Adds the unrecognized formats of a schema and of all schemas in it. The limit of the decoder
/// bounds the depth.
fn find<'s>(schema: &'s Map<String, Value>, formats: &mut Vec<&'s str>) {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    if !is_known(text("format"), text("type")) {
        formats.push(text("format"));
    }
    let one = ONE.iter().filter_map(|name| schema.get(*name));
    let lists = LISTS
        .iter()
        .filter_map(|name| schema.get(*name)?.as_array());
    let maps = MAPS
        .iter()
        .filter_map(|name| schema.get(*name)?.as_object());
    let below = one.chain(lists.flatten()).chain(maps.flat_map(Map::values));
    for schema in below.filter_map(Value::as_object) {
        find(schema, formats);
    }
}

fn is_known(format: &str, of: &str) -> bool {
    match of {
        _ if format.is_empty() => true,
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        "" | "string" => is_text_format(format),
        _ => false,
    }
}
