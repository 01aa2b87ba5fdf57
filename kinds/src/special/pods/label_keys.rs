//! Label keys in selectors of pods: they stand for the value that the pod itself has.

use serde_json::{Value, json};

use api::field::Field;
use api::object::Object;

use crate::defaults::{Members, items, member};

/// The limit on the JSON of what is added to the selectors of a pod. Each of many short terms may
/// name the same long label.
const MAX_ADDED_BYTES: usize = 3 * 1024 * 1024;

/// The bytes of an added requirement beside its key and its value.
const REQUIREMENT_BYTES: usize = 40;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Writes the values of a pod's labels into its selectors. A pod for which that is too much stays
/// as it is: validation refuses it.
pub(super) fn apply(object: &mut Object) {
    if adds_too_much(object) {
        return;
    }
    let labels = object
        .at(&["metadata", "labels"])
        .and_then(Value::as_object);
    let Some(labels) = labels.cloned() else {
        return;
    };
    let add_values = |term: &mut Members| add_values(term, &labels);
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if let Some(affinity) = member(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            if let Some(terms) = member(affinity, kind) {
                for weighted in items(terms, PREFERRED) {
                    if let Some(term) = member(weighted, "podAffinityTerm") {
                        add_values(term);
                    }
                }
                items(terms, REQUIRED).for_each(add_values);
            }
        }
    }
    items(spec, "topologySpreadConstraints").for_each(add_values);
}

/// Whether the labels of a pod would add more to its selectors than is allowed.
pub fn adds_too_much(object: &Object) -> bool {
    let labels = object.at(&["metadata", "labels"]);
    let Some(labels) = labels.and_then(Value::as_object) else {
        return false;
    };
    let spec = Field::of(object, "spec");
    let affinity = spec.member("affinity");
    let mut added = 0;
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.member(kind);
        for weighted in terms.member(PREFERRED).list() {
            added += bytes(&weighted["podAffinityTerm"], labels);
        }
        for term in terms.member(REQUIRED).list() {
            added += bytes(term, labels);
        }
    }
    for term in spec.member("topologySpreadConstraints").list() {
        added += bytes(term, labels);
    }
    added > MAX_ADDED_BYTES
}

/// The JSON of what is added to the selector of a term, roughly.
fn bytes(term: &Value, labels: &Members) -> usize {
    let Some(term) = term.as_object() else {
        return 0;
    };
    if !term.get("labelSelector").is_some_and(Value::is_object) {
        return 0;
    }
    let of = |(_, key, value): (_, &str, &Value)| {
        key.len() + value.as_str().map_or(0, str::len) + REQUIREMENT_BYTES
    };
    requirements(term, labels).map(of).sum()
}

/// The operators, keys and values that the keys of a term add to its selector.
fn requirements<'t>(
    term: &'t Members,
    labels: &'t Members,
) -> impl Iterator<Item = (&'static str, &'t str, &'t Value)> {
    let lists = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
    lists.into_iter().flat_map(move |(list, operator)| {
        let keys = term.get(list).and_then(Value::as_array);
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        keys.filter_map(move |key| Some((operator, key, labels.get(key)?)))
    })
}

/// Adds what the keys of a term select to its selector, if it has one.
fn add_values(term: &mut Members, labels: &Members) {
    if !term.get("labelSelector").is_some_and(Value::is_object) {
        return;
    }
    let json = |(operator, key, value): (&str, &str, &Value)| json!({"key": key, "operator": operator, "values": [value]});
    let mut added: Vec<Value> = requirements(term, labels).map(json).collect();
    let Some(selector) = member(term, "labelSelector").filter(|_| !added.is_empty()) else {
        return;
    };
    let expressions = selector.entry("matchExpressions").or_insert(Value::Null);
    match expressions.as_array_mut() {
        Some(expressions) => expressions.append(&mut added),
        None => *expressions = added.into(),
    }
}
