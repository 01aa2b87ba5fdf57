//! The columns and selectable fields of custom resources (CRD-195, CRD-196, CRD-198).

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::json_path::JsonPath;
use crate::go_json;
use crate::resource::{Cell, Column, Description, FieldPath, OfField, SelectableField};
use crate::structural::printed;
use crate::text::human_duration::age;
use crate::text::quoting::go_number;

/// The type of a column, which decides how a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellType {
    Integer,
    Number,
    Text,
    Boolean,
    Date,
    /// It shows nothing.
    Unknown,
}

/// Returns the columns of a version's Tables, from the `additionalPrinterColumns` of its
/// definition: the name and these, or the name and the age. As in kube-apiserver, a path that
/// can't be parsed leaves only the columns before it.
pub fn printer_columns(additional: &[Value]) -> Vec<Column> {
    let mut columns = vec![Column::name()];
    if additional.is_empty() {
        let created = JsonPath::new(".metadata.creationTimestamp").ok();
        columns.extend(created.map(|path| Column {
            kind: "date".to_owned(),
            ..Column::text(
                "Age",
                OfField("meta.v1.ObjectMeta.creationTimestamp"),
                cell(path, CellType::Date),
            )
        }));
    }
    for column in additional {
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        let Ok(path) = JsonPath::new(text("jsonPath")) else {
            break;
        };
        let kind = text("type");
        let cell_type = match kind {
            "integer" => CellType::Integer,
            "number" => CellType::Number,
            "string" => CellType::Text,
            "boolean" => CellType::Boolean,
            "date" => CellType::Date,
            _ => CellType::Unknown,
        };
        let description = match text("description") {
            "" => {
                let path = text("jsonPath");
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            own => own.to_owned(),
        };
        let priority = column.get("priority").and_then(Value::as_u64);
        columns.push(Column {
            kind: kind.to_owned(),
            format: text("format").to_owned(),
            priority: priority
                .and_then(|priority| u8::try_from(priority).ok())
                .unwrap_or(0),
            ..Column::text(
                text("name"),
                Description::Text(description),
                cell(path, cell_type),
            )
        });
    }
    columns
}

/// Returns the fields for field selectors, from the `selectableFields` of a version: labels are the
/// paths without their first dot, and an absent field has an empty value.
pub fn selectable_fields(fields: &[Value]) -> Vec<SelectableField> {
    let paths = fields
        .iter()
        .filter_map(|field| field.get("jsonPath")?.as_str());
    let fields = paths.map(|path| {
        let label = path.strip_prefix('.').unwrap_or(path);
        SelectableField {
            label: label.to_owned(),
            paths: vec![FieldPath::from(label)],
            absent: String::new(),
            indexed: true,
            is_offered: true,
        }
    });
    fields.collect()
}

fn cell(path: JsonPath, kind: CellType) -> Cell {
    Cell::computed(move |object, now| shown(&object.0, &path, kind, now))
}

/// Returns the cell of an object: null if the path finds nothing, or a value of another type.
fn shown(members: &Map<String, Value>, path: &JsonPath, kind: CellType, now: Timestamp) -> Value {
    let Some(value) = path.first(members) else {
        return Value::Null;
    };
    match (kind, &*value) {
        (CellType::Text, value) => text(value).into(),
        (CellType::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(float)) => crate::structural::cut(float).into(),
            (None, None) => Value::Null,
        },
        (CellType::Number, number @ Value::Number(_)) => printed(number),
        (CellType::Boolean, Value::Bool(value)) => (*value).into(),
        (CellType::Date, Value::String(text)) => date(text, now).into(),
        _ => Value::Null,
    }
}

/// Returns a value as text: scalars as Go prints them, lists and objects as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => go_number(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => {
            let mut json = Vec::new();
            go_json::write_value(&mut json, &printed(value));
            String::from_utf8_lossy(&json).into_owned()
        }
    }
}

/// Returns the time since a date in short human form.
fn date(text: &str, now: Timestamp) -> String {
    match text {
        "" | "null" => age(None, now),
        text => match text.parse::<Timestamp>() {
            Ok(then) => age(Some(then), now),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;

    fn cells(columns: &Value, object: &Value) -> Vec<Value> {
        let object = Object::of(object.as_object().unwrap().clone());
        let columns = printer_columns(columns.as_array().unwrap());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let cells = columns.iter().map(|column| match &column.cell {
            Cell::Computed(compute) => compute(&object, now),
            _ => object.name().into(),
        });
        cells.collect()
    }

    /// CRD-196, by the recorded answers of kube-apiserver.
    #[test]
    fn cells_show_values_of_their_types() {
        let columns = json!([
            {"name": "Wheels", "type": "integer", "jsonPath": ".spec.wheels"},
            {"name": "Load", "type": "number", "format": "double", "jsonPath": ".spec.load"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            {"name": "Full", "type": "boolean", "jsonPath": ".spec.full"},
            {"name": "Due", "type": "date", "jsonPath": ".spec.due"},
            {"name": "First", "type": "string", "jsonPath": ".spec.goods[0].name"},
            {"name": "All", "type": "string", "jsonPath": ".spec.goods[*].name"},
            {"name": "Ready", "type": "string",
                "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Whole", "type": "string", "jsonPath": ".spec.goods"},
        ]);
        for (object, expected) in [
            (
                json!({"metadata": {"name": "a"}, "spec": {"wheels": 4, "load": 1.5, "color": "red",
                    "full": true, "due": "2999-01-01T00:00:00Z",
                    "goods": [{"name": "x"}, {"name": "y"}]}, "status": {"conditions": [
                    {"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}}),
                json!([
                    "a",
                    4,
                    1.5,
                    "red",
                    true,
                    "<invalid>",
                    "x",
                    "x",
                    "True",
                    "[{\"name\":\"x\"},{\"name\":\"y\"}]"
                ]),
            ),
            (
                json!({"metadata": {"name": "b"}, "spec": {"wheels": 2, "load": 3, "color": "blue",
                    "full": false, "due": "soon", "goods": []}}),
                json!([
                    "b",
                    2,
                    3,
                    "blue",
                    false,
                    "<invalid>",
                    null,
                    null,
                    null,
                    "[]"
                ]),
            ),
            (
                json!({"metadata": {"name": "c"}}),
                json!(["c", null, null, null, null, null, null, null, null, null]),
            ),
            (
                json!({"metadata": {"name": "d"}, "spec": {"wheels": "4", "load": "x", "color": 1.5,
                    "full": "true", "due": 5, "goods": null}}),
                json!([
                    "d",
                    null,
                    null,
                    "1.5",
                    null,
                    null,
                    null,
                    null,
                    null,
                    "<no value>"
                ]),
            ),
        ] {
            assert_eq!(Value::from(cells(&columns, &object)), expected);
        }
    }

    /// CRD-195, CRD-196: a path that can't be parsed.
    #[test]
    fn columns_before_a_bad_path_stay() {
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2025-12-31T23:59:00Z"}});
        assert_eq!(cells(&json!([]), &object), ["a", "60s"]);
        let bad = json!({"name": "x", "type": "string", "jsonPath": ".a["});
        let good = json!({"name": "y", "type": "string", "jsonPath": ".metadata.name"});
        assert_eq!(cells(&json!([bad, good]), &object), ["a"]);
        assert_eq!(cells(&json!([good, bad]), &object), ["a", "a"]);
    }

    /// CRD-198.
    #[test]
    fn selectable_fields_have_their_paths_as_labels() {
        let fields = selectable_fields(&[json!({"jsonPath": ".spec.color"})]);
        assert_eq!(fields.len(), 1);
        assert_eq!(fields[0].label, "spec.color");
        assert_eq!(fields[0].paths, FieldPath::list(&["spec.color"]));
    }
}
