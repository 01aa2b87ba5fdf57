//! What Tables show of kinds (API-218, http.md 6.4): columns, and the cells that need more than a
//! path. Objects enter, cells leave.
//!
//! This folder owns a function for each kind that lists its columns, in a file per API group, and
//! the computations of their cells. Objects have been decoded by their schema.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod networking;
pub mod node;
pub mod nodes;
pub mod pods;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod volumes;

use api::duration::age;
use api::field::Field;
use api::object::Object;
use api::resource::{Cell, Column, OfField};
use jiff::Timestamp;
use serde_json::Value;

use crate::validation::selectors::format_label_selector;

/// What stands for nothing.
const NONE: &str = "<none>";

/// What stands for a value that was not given.
const UNSET: &str = "<unset>";

/// What stands for a value that is not known.
const UNKNOWN: &str = "<unknown>";

/// Where most workloads have their containers.
const TEMPLATE: &[&str] = &["spec", "template", "spec", "containers"];

/// A cell that is computed.
fn computed(compute: fn(&Object, Timestamp) -> Value) -> Cell {
    Cell::Computed(compute)
}

/// A text at a path written with dots.
fn text(path: &str) -> Cell {
    Cell::Text(path.into())
}

/// A text, or what stands for an empty one.
fn text_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

/// The whole number at a path, 0 when absent.
fn integer(object: &Object, path: &[&str]) -> Value {
    let number = object.at(path).and_then(Value::as_i64);
    number.unwrap_or_default().into()
}

/// The boolean at a path, or what is meant by its absence.
fn boolean(object: &Object, path: &[&str], absent: bool) -> Value {
    let flag = object.at(path).and_then(Value::as_bool);
    flag.unwrap_or(absent).into()
}

/// The items of the list at a path.
fn list<'o>(object: &'o Object, path: &[&str]) -> &'o [Value] {
    let items = object.at(path).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// The items of a list in a struct.
fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let items = value.get(name).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// The text of a member of a struct.
fn member<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number of a member of a struct.
fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Texts with a separator between them.
fn joined<'v>(texts: impl IntoIterator<Item = &'v str>, separator: &str) -> String {
    let texts: Vec<&str> = texts.into_iter().collect();
    texts.join(separator)
}

/// The texts in a list, with commas.
fn texts(list: &[Value]) -> String {
    joined(list.iter().filter_map(Value::as_str), ",")
}

/// Labels as `a=b,c=d`.
fn labels(labels: Option<&Value>) -> Value {
    let members = labels.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = members
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    text_or(&pairs.join(","), NONE).into()
}

/// The selector of labels at a path.
fn selector(object: &Object, path: &[&str]) -> Value {
    format_label_selector(&Field::named("", object.at(path))).into()
}

/// The time since a time in an object.
fn since(time: &str, now: Timestamp) -> String {
    age(time.parse().ok(), now)
}

/// The names of the containers in a list.
fn container_names(object: &Object, path: &[&str]) -> Value {
    let containers = list(object, path).iter();
    joined(containers.map(|container| member(container, "name")), ",").into()
}

/// The images of the containers in a list.
fn container_images(object: &Object, path: &[&str]) -> Value {
    let containers = list(object, path).iter();
    joined(containers.map(|container| member(container, "image")), ",").into()
}

/// The condition of this type in a list of conditions.
fn condition<'v>(conditions: &'v [Value], kind: &str) -> Option<&'v Value> {
    conditions.iter().find(|one| member(one, "type") == kind)
}

/// Whether a condition of this type is true.
fn is_true(conditions: &[Value], kind: &str) -> bool {
    let mut same = conditions.iter().filter(|one| member(one, "type") == kind);
    same.any(|one| member(one, "status") == "True")
}

/// The first of many texts, and how many more there are: `a,b,c + 2 more...`.
fn with_more(shown: &[String], total: usize) -> String {
    let text = shown.join(",");
    match total.saturating_sub(shown.len()) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

/// The name, with a mark if one of these annotations says that the class is the default.
fn class_name(class: &Object, annotations: &[&str]) -> Value {
    let says_so = |name: &&str| class.text(&["metadata", "annotations", name]) == "true";
    let is_default = annotations.iter().any(says_so);
    let mark = if is_default { " (default)" } else { "" };
    format!("{}{mark}", class.name()).into()
}

/// The columns of a kind without columns of its own.
fn plain() -> Vec<Column> {
    vec![Column::name(), Column::created_at()]
}

/// The wide column with the names of containers.
fn containers(compute: fn(&Object, Timestamp) -> Value) -> Column {
    let cell = computed(compute);
    Column::text("Containers", "Names of the containers of its pods.", cell).wide()
}

/// The wide column with the images of containers.
fn images(compute: fn(&Object, Timestamp) -> Value) -> Column {
    let cell = computed(compute);
    Column::text("Images", "Images of the containers of its pods.", cell).wide()
}

/// The wide columns with the names and the images of the containers of most workloads.
fn template_columns() -> [Column; 2] {
    [
        containers(|object, _| container_names(object, TEMPLATE)),
        images(|object, _| container_images(object, TEMPLATE)),
    ]
}

/// The wide column with the selector of pods.
fn selector_column(of: OfField, compute: fn(&Object, Timestamp) -> Value) -> Column {
    Column::text("Selector", of, computed(compute)).wide()
}

/// The wide column with the selector of most workloads.
fn workload_selector(of: OfField) -> Column {
    selector_column(of, |object, _| selector(object, &["spec", "selector"]))
}

#[cfg(test)]
mod tests;
