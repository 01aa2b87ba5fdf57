//! Pure. The nodes that a pod may run on: by nodeSelector, required node affinity, taints and
//! `unschedulable`. Resources, ports and the affinity to other pods are not considered.

use serde_json::Value;

use crate::api::object::Object;

/// Whether a pod may be bound to a node.
pub(super) fn fits(pod: &Object, node: &Object) -> bool {
    wants(pod, node) && tolerates(pod, node)
}

/// Whether the selector and the affinity of a pod allow a node.
pub(super) fn wants(pod: &Object, node: &Object) -> bool {
    let selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object);
    let mut selector = selector.into_iter().flatten();
    let is_selected = selector.all(|(key, value)| label(node, key) == value.as_str());
    is_selected && has_affinity(pod, node)
}

fn label<'n>(node: &'n Object, key: &str) -> Option<&'n str> {
    node.at(&["metadata", "labels", key])?.as_str()
}

fn has_affinity(pod: &Object, node: &Object) -> bool {
    const REQUIRED: [&str; 5] = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    if pod.at(&REQUIRED).is_none() {
        return true;
    }
    pod.items(&REQUIRED).iter().any(|term| {
        let list = |name: &str| term.get(name).and_then(Value::as_array);
        let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
        let name = Some(node.name());
        let by_label = |one: &Value| matches(one, |key| label(node, key));
        let by_field = |one: &Value| matches(one, |key| name.filter(|_| key == "metadata.name"));
        (expressions.is_some() || fields.is_some())
            && expressions.into_iter().flatten().all(by_label)
            && fields.into_iter().flatten().all(by_field)
    })
}

/// Whether a requirement holds for the value of its key.
fn matches<'v>(requirement: &Value, value_of: impl FnOnce(&str) -> Option<&'v str>) -> bool {
    let text = |name: &str| requirement.get(name).and_then(Value::as_str);
    let value = value_of(text("key").unwrap_or_default());
    let values = requirement.get("values").and_then(Value::as_array);
    let mut values = values.into_iter().flatten().filter_map(Value::as_str);
    let bound = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    match text("operator").unwrap_or_default() {
        "In" => value.is_some_and(|value| values.any(|one| one == value)),
        "NotIn" => value.is_none_or(|value| !values.any(|one| one == value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => bound(value)
            .zip(bound(values.next()))
            .is_some_and(|(a, b)| a > b),
        "Lt" => bound(value)
            .zip(bound(values.next()))
            .is_some_and(|(a, b)| a < b),
        _ => false,
    }
}

/// Whether a pod tolerates the taints of a node that keep pods away.
fn tolerates(pod: &Object, node: &Object) -> bool {
    let text = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let tolerations = pod.items(&["spec", "tolerations"]);
    let tolerated = |key: &str, value: &str, effect: &str| {
        tolerations.iter().any(|one| {
            let (its_key, its_effect) = (text(one, "key"), text(one, "effect"));
            let exists = text(one, "operator") == "Exists";
            (its_effect.is_empty() || its_effect == effect)
                && (its_key == key || (its_key.is_empty() && exists))
                && (exists || text(one, "value") == value)
        })
    };
    let is_closed = node.at(&["spec", "unschedulable"]) == Some(&Value::Bool(true));
    if is_closed && !tolerated("node.kubernetes.io/unschedulable", "", "NoSchedule") {
        return false;
    }
    node.items(&["spec", "taints"]).iter().all(|taint| {
        let effect = text(taint, "effect");
        effect == "PreferNoSchedule"
            || tolerated(&text(taint, "key"), &text(taint, "value"), &effect)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::plan::tests::object;
    use super::*;

    #[test]
    fn pods_go_where_they_may() {
        let node = object(&json!({
            "metadata": {"name": "a", "labels": {"zone": "1", "size": "5"}},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        }));
        let tolerations = json!([{"key": "k", "operator": "Equal", "value": "v"}]);
        let with = |name: &str, value: Value| {
            let mut pod = object(&json!({"spec": {"tolerations": tolerations}}));
            crate::api::object::put(&mut pod, &["spec", name], value);
            pod
        };
        let affinity = |kind: &str, key: &str, operator: &str, values: &[&str]| {
            let one = json!({"key": key, "operator": operator, "values": values});
            let required = json!({"nodeSelectorTerms": [{kind: [one]}]});
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            with("affinity", json!({"nodeAffinity": required}))
        };
        for (pod, is_fit) in [
            (with("x", json!(1)), true),
            (with("tolerations", json!([])), false),
            (with("tolerations", json!([{"operator": "Exists"}])), true),
            (
                with("tolerations", json!([{"key": "k", "value": "w"}])),
                false,
            ),
            (with("nodeSelector", json!({"zone": "1"})), true),
            (with("nodeSelector", json!({"zone": "2"})), false),
            (affinity("matchFields", "metadata.name", "In", &["a"]), true),
            (
                affinity("matchFields", "metadata.name", "In", &["b"]),
                false,
            ),
            (affinity("matchExpressions", "zone", "NotIn", &["1"]), false),
            (affinity("matchExpressions", "none", "NotIn", &["1"]), true),
            (affinity("matchExpressions", "zone", "Exists", &[]), true),
            (
                affinity("matchExpressions", "zone", "DoesNotExist", &[]),
                false,
            ),
            (affinity("matchExpressions", "size", "Gt", &["4"]), true),
            (affinity("matchExpressions", "size", "Lt", &["4"]), false),
        ] {
            assert_eq!(fits(&pod, &node), is_fit, "{:?}", pod.0);
        }
    }

    #[test]
    fn a_cordoned_node_takes_no_pods() {
        let node = object(&json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}}));
        assert!(!fits(&object(&json!({"spec": {}})), &node));
    }
}
