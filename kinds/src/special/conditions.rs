//! Conditions in the status of any kind.

use serde_json::Value;

/// Puts a condition in the place of the one of its type, or behind all others. Its
/// `lastTransitionTime` stays that of the earlier one if the status is the same.
pub fn put_condition(conditions: &mut Vec<Value>, mut new: Value) {
    let mut known = conditions.iter_mut();
    match known.find(|old| old["type"] == new["type"]) {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}
