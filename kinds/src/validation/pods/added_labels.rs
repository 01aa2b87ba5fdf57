//! Requirements that `matchLabelKeys` and `mismatchLabelKeys` add to selectors from the labels of a
//! pod.

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use crate::defaults::Members;

/// The limit of the JSON that is added to the selectors of a pod. Without it, many short terms
/// could each add the same long label.
const MAX_ADDED_BYTES: usize = 3 * 1024 * 1024;

/// The bytes of an added requirement, in addition to its key and its value.
const REQUIREMENT_BYTES: usize = 40;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Reports whether the labels of a pod would add more to its selectors than is allowed.
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

/// Returns the approximate size of the JSON that is added to the selector of a term.
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

/// Returns the operators, keys and values that the label keys of a term add to its selector.
pub fn requirements<'t>(
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
