//! The columns of Tables for each kind (API-218, http.md 6.4), and the cells that need more than a
//! field path.
//!
//! A file per API group has one function for each kind, which lists its columns, and the
//! computations of their cells. Objects have been decoded by their schema, so types need no check
//! here.

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

use api::field::Field;
use api::object::Object;
use api::resource::{Cell, Column, OfField};
use api::text::human_duration::age;
use jiff::Timestamp;
use serde_json::Value;

use crate::validation::selectors::format_label_selector;

/// The text of an empty value.
const NONE: &str = "<none>";

/// The text of an unset value.
const UNSET: &str = "<unset>";

/// The text of an unknown value.
const UNKNOWN: &str = "<unknown>";

/// The path of the containers in most workloads.
const TEMPLATE: &[&str] = &["spec", "template", "spec", "containers"];

/// Returns a cell that is computed from the object and the current time.
fn computed(compute: fn(&Object, Timestamp) -> Value) -> Cell {
    Cell::computed(compute)
}

/// Returns a cell with the string at a dotted path.
fn text(path: &str) -> Cell {
    Cell::Text(path.into())
}

/// Returns the text, or `otherwise` if it is empty.
fn text_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

/// Returns the integer at a path, 0 if absent.
fn integer(object: &Object, path: &[&str]) -> Value {
    let number = object.at(path).and_then(Value::as_i64);
    number.unwrap_or_default().into()
}

/// Returns the boolean at a path, or `absent` if it is unset.
fn boolean(object: &Object, path: &[&str], absent: bool) -> Value {
    let flag = object.at(path).and_then(Value::as_bool);
    flag.unwrap_or(absent).into()
}

/// Returns the items of the list at a path.
fn list<'o>(object: &'o Object, path: &[&str]) -> &'o [Value] {
    let items = object.at(path).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the items of a member that is a list.
fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let items = value.get(name).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the string of a member.
fn member<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer of a member.
fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Joins texts with a separator.
fn joined<'v>(texts: impl IntoIterator<Item = &'v str>, separator: &str) -> String {
    let texts: Vec<&str> = texts.into_iter().collect();
    texts.join(separator)
}

/// Joins the strings of a list with commas.
fn texts(list: &[Value]) -> String {
    joined(list.iter().filter_map(Value::as_str), ",")
}

/// Formats labels as `a=b,c=d`.
fn labels(labels: Option<&Value>) -> Value {
    let members = labels.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = members
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    text_or(&pairs.join(","), NONE).into()
}

/// Formats the label selector at a path.
fn selector(object: &Object, path: &[&str]) -> Value {
    format_label_selector(&Field::named("", object.at(path))).into()
}

/// Formats the time that has passed since `time`.
fn since(time: &str, now: Timestamp) -> String {
    age(time.parse().ok(), now)
}

/// Returns the names of the containers at a path, separated by commas.
fn container_names(object: &Object, path: &[&str]) -> Value {
    let containers = list(object, path).iter();
    joined(containers.map(|container| member(container, "name")), ",").into()
}

/// Returns the images of the containers at a path, separated by commas.
fn container_images(object: &Object, path: &[&str]) -> Value {
    let containers = list(object, path).iter();
    joined(containers.map(|container| member(container, "image")), ",").into()
}

/// Returns the condition of this type in a list of conditions.
fn condition<'v>(conditions: &'v [Value], kind: &str) -> Option<&'v Value> {
    conditions.iter().find(|one| member(one, "type") == kind)
}

/// Reports whether a condition of this type is true.
fn is_true(conditions: &[Value], kind: &str) -> bool {
    let mut same = conditions.iter().filter(|one| member(one, "type") == kind);
    same.any(|one| member(one, "status") == "True")
}

/// Joins the first texts and the number of the others: `a,b,c + 2 more...`.
fn with_more(shown: &[String], total: usize) -> String {
    let text = shown.join(",");
    match total.saturating_sub(shown.len()) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

/// Returns the name of a class, with `(default)` if one of these annotations marks it as the
/// default.
fn class_name(class: &Object, annotations: &[&str]) -> Value {
    let says_so = |name: &&str| class.text(&["metadata", "annotations", name]) == "true";
    let is_default = annotations.iter().any(says_so);
    let mark = if is_default { " (default)" } else { "" };
    format!("{}{mark}", class.name()).into()
}

/// Returns the columns of kinds without any of their own: name and creation time.
fn plain() -> Vec<Column> {
    vec![Column::name(), Column::created_at()]
}

/// Returns the wide column with the names of containers.
fn containers(compute: fn(&Object, Timestamp) -> Value) -> Column {
    let cell = computed(compute);
    Column::text("Containers", "Names of the containers of its pods.", cell).wide()
}

/// Returns the wide column with the images of containers.
fn images(compute: fn(&Object, Timestamp) -> Value) -> Column {
    let cell = computed(compute);
    Column::text("Images", "Images of the containers of its pods.", cell).wide()
}

/// Returns the wide columns with the names and the images of the containers of most workloads.
fn template_columns() -> [Column; 2] {
    [
        containers(|object, _| container_names(object, TEMPLATE)),
        images(|object, _| container_images(object, TEMPLATE)),
    ]
}

/// Returns the wide column with the selector of pods.
fn selector_column(of: OfField, compute: fn(&Object, Timestamp) -> Value) -> Column {
    Column::text("Selector", of, computed(compute)).wide()
}

/// Returns the wide column with the selector of most workloads.
fn workload_selector(of: OfField) -> Column {
    selector_column(of, |object, _| selector(object, &["spec", "selector"]))
}

#[cfg(test)]
mod tests;
