//! The conditions that the server sets in the status of a pod.

use api::object::{Object, put, whole_seconds};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::strategies::conditions::put_condition;

const CONDITIONS: [&str; 2] = ["status", "conditions"];

/// A condition with status True.
pub struct PodCondition<'c> {
    /// Its type: `PodScheduled`.
    pub kind: &'c str,
    /// The reason, or an empty text.
    pub reason: &'c str,
    /// The message, or an empty text.
    pub message: &'c str,
}

/// Sets a condition in a pod's status. `lastTransitionTime` changes only if the status does.
pub fn set_condition(pod: &mut Object, condition: &PodCondition<'_>, now: Timestamp) {
    let found = pod.at(&CONDITIONS).and_then(Value::as_array);
    let mut conditions = found.cloned().unwrap_or_default();
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
    put_condition(&mut conditions, new);
    put(pod, &CONDITIONS, Value::Array(conditions));
}
