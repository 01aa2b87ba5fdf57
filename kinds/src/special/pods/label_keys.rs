//! Label keys in selectors of pods: they stand for the value that the pod itself has.

use serde_json::{Value, json};

use api::object::Object;

use crate::defaults::{Members, items, member};

/// The limit on the JSON of what is added to the selectors of a pod. Each of many short terms may
/// name the same long label. A pod that needs more is larger than what etcd accepts.
const MAX_ADDED_BYTES: usize = 3 * 1024 * 1024;

/// The bytes of an added requirement beside its key and its value.
const REQUIREMENT_BYTES: usize = 40;

/// Writes the values of a pod's labels into its selectors.
pub(super) fn apply(object: &mut Object) {
    let labels = object
        .at(&["metadata", "labels"])
        .and_then(Value::as_object);
    let Some(labels) = labels.cloned() else {
        return;
    };
    let mut left = MAX_ADDED_BYTES;
    let mut add_values = |term: &mut Members| add_values(term, &labels, &mut left);
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if let Some(affinity) = member(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            if let Some(terms) = member(affinity, kind) {
                let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
                for weighted in items(terms, preferred) {
                    if let Some(term) = member(weighted, "podAffinityTerm") {
                        add_values(term);
                    }
                }
                let required = "requiredDuringSchedulingIgnoredDuringExecution";
                items(terms, required).for_each(&mut add_values);
            }
        }
    }
    items(spec, "topologySpreadConstraints").for_each(add_values);
}

/// Adds what the keys of a term select to its selector, if it has one.
fn add_values(term: &mut Members, labels: &Members, left: &mut usize) {
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(list).and_then(Value::as_array);
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        for key in keys {
            let Some(value) = labels.get(key) else {
                continue;
            };
            let bytes = key.len() + value.as_str().map_or(0, str::len) + REQUIREMENT_BYTES;
            *left = left.saturating_sub(bytes);
            if *left > 0 {
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
