//! Defaults of LimitRanges and ResourceQuotas (API-254).

use api::object::Object;
use serde_json::Value;

use super::pods::resources::resource_list;
use super::{Members, items, member, member_or_new};

/// The resource lists of a limit.
const LISTS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

/// Brings the quantities of a ResourceQuota into canonical form.
pub fn resourcequota(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        resource_list(spec, "hard");
    }
    if let Some(status) = member(&mut object.0, "status") {
        resource_list(status, "hard");
        resource_list(status, "used");
    }
}

/// Sets the defaults of a LimitRange. Limits of containers default to other limits of the same
/// item.
pub fn limitrange(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    for item in items(spec, "limits") {
        for list in LISTS {
            resource_list(item, list);
        }
        if item.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        fill(item, "default", "max");
        fill(item, "defaultRequest", "default");
        fill(item, "defaultRequest", "min");
    }
}

/// Copies the resources of a list that another list lacks.
fn fill(item: &mut Members, list: &str, from: &str) {
    let Some(Value::Object(source)) = item.get(from) else {
        return;
    };
    if source.is_empty() {
        return;
    }
    let source = source.clone();
    if let Some(target) = member_or_new(item, list) {
        for (name, quantity) in source {
            target.entry(name).or_insert(quantity);
        }
    }
}
