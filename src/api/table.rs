//! Tables and PartialObjectMetadata (2.4): what `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::api::duration::age;
use crate::api::object::Object;
use crate::api::resource::{Cell, ResourceDefinition};

/// `columnDefinitions` of a resource's Tables (API-68, API-70).
pub fn column_definitions(definition: &ResourceDefinition) -> Value {
    definition
        .columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        })
        .collect()
}

/// The cells of an object's row, in the order of the columns (API-76, API-77, API-218).
pub fn cells(definition: &ResourceDefinition, object: &Object, now: Timestamp) -> Vec<Value> {
    definition
        .columns
        .iter()
        .map(|column| cell(&column.cell, object, now))
        .collect()
}

fn cell(cell: &Cell, object: &Object, now: Timestamp) -> Value {
    match cell {
        Cell::Name => object.name().into(),
        Cell::Age => age(object.meta("creationTimestamp").parse().ok(), now).into(),
        Cell::CreatedAt => object.meta("creationTimestamp").into(),
        Cell::Text(path, absent) => match object.at(path) {
            Some(Value::String(text)) if !text.is_empty() => text.as_str().into(),
            _ => (*absent).into(),
        },
        Cell::Count(paths) => paths
            .iter()
            .filter_map(|path| object.at(path))
            .map(count)
            .sum::<usize>()
            .into(),
        Cell::Computed(compute) => compute(object, now),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// The metadata of an object alone, as `meta.k8s.io/v1` PartialObjectMetadata (API-71).
pub fn partial_object_metadata(object: &Object) -> Value {
    let metadata = object.metadata().cloned().unwrap_or_default();
    let mut partial = Map::new();
    partial.insert("kind".to_owned(), "PartialObjectMetadata".into());
    partial.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    partial.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(partial)
}
