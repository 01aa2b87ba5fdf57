//! `matchLabelKeys` and `mismatchLabelKeys`: keys whose values a selector takes from the pod's own
//! labels.

use serde_json::{Value, json};

use api::object::Object;

use crate::defaults::{Members, items, member};
use crate::validation::pods::added_labels::{adds_too_much, requirements};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Adds the values of the pod's labels to its selectors. If that would add too much, the pod stays
/// unchanged and validation refuses it.
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

/// Adds the requirements of a term's keys to its selector, if it has one.
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
