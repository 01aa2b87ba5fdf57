//! The binding of a pod to a node (API-219).

use api::object::{Object, put, remove};
use jiff::Timestamp;
use serde_json::Value;

use super::{PodCondition, set_condition};

/// Assigns a pod to the node that a valid binding names, and copies the binding's labels and
/// annotations to the pod.
///
/// # Errors
/// Returns the reason why the pod cannot be assigned.
pub fn bind(pod: &mut Object, binding: &Object, now: Timestamp) -> Result<(), String> {
    let name = pod.name();
    if pod.is_being_deleted() {
        return Err(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let node = pod.text(&["spec", "nodeName"]);
    if !node.is_empty() {
        let node = api::text::quoting::go_quote(node);
        return Err(format!("pod {name} is already assigned to node {node}"));
    }
    let gates = pod.at(&["spec", "schedulingGates"]);
    if gates
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let node = binding.text(&["target", "name"]).to_owned();
    put(pod, &["spec", "nodeName"], node.into());
    for part in ["annotations", "labels"] {
        let given = binding.at(&["metadata", part]).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            put(pod, &["metadata", part, key.as_str()], value.clone());
        }
    }
    let scheduled = PodCondition {
        kind: "PodScheduled",
        reason: "",
        message: "",
    };
    set_condition(pod, &scheduled, now);
    // The nomination is obsolete once the pod has a node.
    remove(pod, &["status", "nominatedNodeName"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_pod_is_bound_once_and_when_it_may_be_api_219() {
        let binding = object(&json!({
            "metadata": {"name": "p", "annotations": {"a.b/c": "1"}, "labels": {"zone": "z"}},
            "target": {"name": "n"},
        }));
        let bound = |pod: &Value| {
            let mut pod = object(pod);
            bind(&mut pod, &binding, Timestamp::UNIX_EPOCH).map(|()| pod)
        };
        let pod = bound(&json!({
            "metadata": {"name": "p", "labels": {"zone": "y"}}, "spec": {},
            "status": {"nominatedNodeName": "m"},
        }));
        let wanted = json!({
            "metadata": {"name": "p", "annotations": {"a.b/c": "1"}, "labels": {"zone": "z"}},
            "spec": {"nodeName": "n"},
            "status": {"conditions": [{
                "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }]},
        });
        assert_eq!(Value::Object(pod.unwrap().0), wanted);
        for (pod, why) in [
            (
                json!({"spec": {"nodeName": "m"}}),
                "is already assigned to node \"m\"",
            ),
            (
                json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
                "schedulingGates",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "t"}}),
                "is being deleted",
            ),
        ] {
            let refused = bound(&pod).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
