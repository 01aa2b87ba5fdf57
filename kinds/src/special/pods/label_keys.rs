//! Label keys in selectors of pods: they stand for the value that the pod itself has.

use serde_json::{Value, json};

use api::object::Object;

use crate::defaults::{Members, items, member};

/// Writes the values of a pod's labels into its selectors.
pub(super) fn apply(object: &mut Object) {
    let labels = object
        .at(&["metadata", "labels"])
        .and_then(Value::as_object);
    let Some(labels) = labels.cloned() else {
        return;
    };
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if let Some(affinity) = member(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            if let Some(terms) = member(affinity, kind) {
                let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
                for weighted in items(terms, preferred) {
                    if let Some(term) = member(weighted, "podAffinityTerm") {
                        add_values(term, &labels);
                    }
                }
                let required = "requiredDuringSchedulingIgnoredDuringExecution";
                items(terms, required).for_each(|term| add_values(term, &labels));
            }
        }
    }
    items(spec, "topologySpreadConstraints").for_each(|term| add_values(term, &labels));
}

/// Adds what the keys of a term select to its selector, if it has one.
fn add_values(term: &mut Members, labels: &Members) {
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(list).and_then(Value::as_array);
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        for key in keys {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = member(term, "labelSelector").filter(|_| !added.is_empty()) else {
        return;
    };
    let expressions = selector.entry("matchExpressions").or_insert(Value::Null);
    match expressions.as_array_mut() {
        Some(expressions) => expressions.append(&mut added),
        None => *expressions = added.into(),
    }
}
