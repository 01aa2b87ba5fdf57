//! Tables and PartialObjectMetadata (http.md 2.4), which `kubectl get` requests.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::resource::{Cell, Column, Description, OfField, ResourceDefinition};
use crate::text::human_duration::age;

/// Returns the `columnDefinitions` of a resource's Tables (API-68, API-70). `describe` returns the
/// description of a field, if known.
pub fn column_definitions(
    definition: &ResourceDefinition,
    describe: impl Fn(OfField) -> Option<&'static str>,
) -> Value {
    let description = |column: &Column| match &column.description {
        Description::Text(text) => text.as_str().into(),
        Description::OfField(field) => Value::from(describe(*field).unwrap_or_default()),
    };
    definition
        .behaviour
        .columns()
        .iter()
        .filter(|column| column.is_listed)
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": description(column),
                "priority": column.priority,
            })
        })
        .collect()
}

/// Returns the cells of an object's row, in the order of the columns (API-76, API-77, API-218).
pub fn cells(definition: &ResourceDefinition, object: &Object, now: Timestamp) -> Vec<Value> {
    definition
        .behaviour
        .columns()
        .iter()
        .map(|column| cell(&column.cell, object, now))
        .collect()
}

fn cell(cell: &Cell, object: &Object, now: Timestamp) -> Value {
    match cell {
        Cell::Name => object.name().into(),
        Cell::Age => age(object.meta("creationTimestamp").parse().ok(), now).into(),
        Cell::CreatedAt => object.meta("creationTimestamp").into(),
        Cell::Text(path) => object.text(path).into(),
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

/// Returns the conditions of an object's row, by which clients hide or grey it (API-76).
pub fn row_conditions(definition: &ResourceDefinition, object: &Object) -> Option<Value> {
    definition.behaviour.row_conditions(object)
}

/// Returns only the metadata of an object, as a `meta.k8s.io/v1` PartialObjectMetadata (API-71).
pub fn partial_object_metadata(object: &Object) -> Value {
    let metadata = object.metadata().cloned().unwrap_or_default();
    let mut partial = Map::new();
    partial.insert("kind".to_owned(), "PartialObjectMetadata".into());
    partial.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    partial.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(partial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{configmaps, namespaces, object};

    /// API-68, API-70: every column is listed, regardless of its priority.
    #[test]
    fn columns_are_described() {
        let columns = column_definitions(&configmaps(), |_| None);
        let names: Vec<&str> = columns
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(names, ["Name", "Data", "Age"]);
        let name = json!({
            "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
        });
        assert_eq!(columns[0], name);
    }

    /// API-76, API-77, http.md 6.4.
    #[test]
    fn cells_show_counts_and_ages() {
        let now: Timestamp = "2024-01-01T00:05:02Z".parse().unwrap();
        let configmap = object(
            r#"{"metadata":{"name":"a","creationTimestamp":"2024-01-01T00:00:00Z"},
            "data":{"k":"v","l":"w"},"binaryData":{"m":"eA=="}}"#,
        );
        assert_eq!(
            cells(&configmaps(), &configmap, now),
            [json!("a"), json!(3), json!("5m2s")]
        );
        let bare = object(r#"{"metadata":{"name":"b"}}"#);
        assert_eq!(
            cells(&configmaps(), &bare, now),
            [json!("b"), json!(0), json!("<unknown>")]
        );
    }

    /// API-218: a text, or the value for an absent text.
    #[test]
    fn cells_show_texts_and_times() {
        let namespace = object(
            r#"{"metadata":{"name":"n","creationTimestamp":"2024-01-01T00:00:00Z"},
            "status":{"phase":"Active"}}"#,
        );
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            cells(&namespaces(), &namespace, now),
            [json!("n"), json!("Active"), json!("2024-01-01T00:00:00Z")]
        );
        let bare = object("{}");
        assert_eq!(
            cells(&namespaces(), &bare, now),
            [json!(""), json!(""), json!("")]
        );
    }

    /// API-71, API-75: all of the metadata and nothing else.
    #[test]
    fn partial_metadata_is_all_metadata() {
        let configmap = object(
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"l":"1"},
            "resourceVersion":"5"},"data":{"k":"v"}}"#,
        );
        assert_eq!(
            partial_object_metadata(&configmap),
            json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "a", "labels": {"l": "1"}, "resourceVersion": "5"},
            })
        );
    }
}
