//! The conditions that the server sets in the status of a pod.

use api::object::{Object, put, whole_seconds};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const CONDITIONS: [&str; 2] = ["status", "conditions"];

/// A condition that is true.
pub struct PodCondition<'c> {
    /// Its type: `PodScheduled`.
    pub kind: &'c str,
    /// Why, in one word, if it is said.
    pub reason: &'c str,
    /// Why, in a sentence, if it is said.
    pub message: &'c str,
}

/// Says in a pod's status that something is so. The time is that of the last change between true
/// and false.
pub fn set_condition(pod: &mut Object, condition: &PodCondition<'_>, now: Timestamp) {
    let found = pod.at(&CONDITIONS).and_then(Value::as_array);
    let mut conditions = found.cloned().unwrap_or_default();
    let is_same = |other: &&mut Value| other.get("type") == Some(&condition.kind.into());
    let mut new = json!({
        "type": condition.kind,
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": whole_seconds(now),
    });
    let texts = [("reason", condition.reason), ("message", condition.message)];
    let members: Map<String, Value> = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), text.into()))
        .collect();
    if let Some(all) = new.as_object_mut() {
        all.extend(members);
    }
    match conditions.iter_mut().find(is_same) {
        Some(old) => {
            if old.get("status") == new.get("status")
                && let Some(since) = old.get("lastTransitionTime")
            {
                new["lastTransitionTime"] = since.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
    put(pod, &CONDITIONS, Value::Array(conditions));
}
