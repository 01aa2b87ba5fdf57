//! Conditions in the status of any object.

use serde_json::Value;

/// Replaces the condition of the same type, or appends the new one. `lastTransitionTime` is kept if
/// the status is the same.
pub fn put_condition(conditions: &mut Vec<Value>, mut new: Value) {
    let mut known = conditions.iter_mut();
    match known.find(|old| old["type"] == new["type"]) {
        Some(old) => {
            if old["status"] == new["status"]
                && let Some(since) = old.get("lastTransitionTime")
            {
                new["lastTransitionTime"] = since.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}
