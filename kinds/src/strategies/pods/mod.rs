//! Pods: the fields of new ones that the server sets, and the grace period (http.md 6.2, API-112).

mod app_armor;
mod binding;
mod conditions;
mod containers;
pub mod eviction;
mod label_keys;
mod status;

use serde_json::{Value, json};

use api::object::Object;
use api::object::put;

use crate::validation::pods::quality::quality_of_service;

pub use app_armor::profiles_of_annotations;
pub use binding::bind;
pub use conditions::{PodCondition, set_condition};
pub use containers::{prepare_ephemeral_containers, prepare_resize};
pub use status::prepare_status;

/// Kubernetes' default of `spec.terminationGracePeriodSeconds` (API-245).
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Prepares a new pod. Its status is reset to Pending, except for a QoS class in the body (http.md
/// 6.2). Label keys become requirements of its selectors, and annotations with profiles become
/// fields.
pub fn prepare_create(object: &mut Object) {
    let class = match object.text(&["status", "qosClass"]) {
        "" => quality_of_service(object),
        given => given,
    };
    let mut status = json!({"phase": "Pending", "qosClass": class});
    let gates = object.at(&["spec", "schedulingGates"]);
    let is_gated = gates
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    if let (true, Some(status)) = (is_gated, status.as_object_mut()) {
        status.insert("conditions".to_owned(), json!([gated(object)]));
    }
    put(object, &["status"], status);
    label_keys::apply(object);
    app_armor::apply(object);
}

/// Returns the condition of a pod with scheduling gates.
fn gated(object: &Object) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": object.text(&["metadata", "creationTimestamp"]),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    })
}

/// Reports whether a pod has succeeded or failed.
pub fn has_ended(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Returns the grace period in seconds: 0 if the pod has no node or has ended, since no kubelet has
/// to stop it (API-112).
pub fn grace(object: &Object, asked: Option<i64>) -> i64 {
    if has_ended(object) || object.text(&["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let own = object.at(&["spec", "terminationGracePeriodSeconds"]);
    let own = own.and_then(Value::as_i64).unwrap_or(DEFAULT_GRACE_SECONDS);
    match asked.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

#[cfg(test)]
mod tests {
    use api::error_list::ErrorList;

    use super::*;
    use crate::validation::pods::validate_pod;

    fn prepared(value: Value) -> Object {
        let Value::Object(members) = value else {
            panic!("an object");
        };
        let mut object = Object::of(members);
        prepare_create(&mut object);
        object
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn a_gated_pod_says_so() {
        let pod = prepared(json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "schedulingGates": [{"name": "g"}]},
            "status": {"phase": "Running"},
        }));
        let status = json!({
            "phase": "Pending",
            "qosClass": "BestEffort",
            "conditions": [{
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }],
        });
        assert_eq!(pod.at(&["status"]), Some(&status));
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn a_new_pod_keeps_the_quality_of_service_it_names() {
        for (given, made) in [
            ("A B", "A B"),
            ("Burstable", "Burstable"),
            ("", "BestEffort"),
        ] {
            let pod = prepared(json!({
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": "Running", "message": "x", "qosClass": given},
            }));
            let status = json!({"phase": "Pending", "qosClass": made});
            assert_eq!(pod.at(&["status"]), Some(&status));
        }
    }

    #[test]
    fn selectors_name_the_values_of_the_labels_of_the_pod() {
        let keys = json!({"labelSelector": {}, "matchLabelKeys": ["a", "q"],
            "mismatchLabelKeys": ["b"]});
        let pod = prepared(json!({
            "metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": keys.clone()},
                    ]},
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [keys],
                    },
                },
                "topologySpreadConstraints": [
                    {"labelSelector": {"matchExpressions": [{"key": "z", "operator": "Exists"}]},
                     "matchLabelKeys": ["b"]},
                    {"matchLabelKeys": ["b"]},
                ],
            },
        }));
        let is_one = json!({"key": "a", "operator": "In", "values": ["1"]});
        let is_not_two = json!({"key": "b", "operator": "NotIn", "values": ["2"]});
        let both = json!({"matchExpressions": [is_one, is_not_two]});
        let affinity = pod.at(&["spec", "affinity"]).unwrap();
        let preferred = &affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(preferred[0]["podAffinityTerm"]["labelSelector"], both);
        let required =
            &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required[0]["labelSelector"], both);
        let spread = pod.at(&["spec", "topologySpreadConstraints"]).unwrap();
        let expected = json!({"matchExpressions": [
            {"key": "z", "operator": "Exists"},
            {"key": "b", "operator": "In", "values": ["2"]},
        ]});
        assert_eq!(spread[0]["labelSelector"], expected);
        assert_eq!(spread[1].get("labelSelector"), None);
    }

    #[test]
    fn pods_whose_label_keys_take_too_much_are_refused() {
        const REFUSED: &str = "spec: Forbidden: labels of matchLabelKeys and mismatchLabelKeys \
                               may add at most 3 MiB to selectors";
        let term = json!({"labelSelector": {}, "matchLabelKeys": ["a"]});
        let small = json!({"labelSelector": {}, "matchLabelKeys": ["b"]});
        let preferred = json!({"weight": 1, "podAffinityTerm": term});
        let filled = |count: usize| {
            let lists = [
                json!({"topologySpreadConstraints": vec![term.clone(); count]}),
                json!({"affinity": {"podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": vec![term.clone(); count],
                }}}),
                json!({"affinity": {"podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution":
                        vec![preferred.clone(); count],
                }}}),
            ];
            lists.map(|mut spec| {
                // A small item after those that are too large must not be dropped silently.
                if let Some(list) = spec["topologySpreadConstraints"].as_array_mut() {
                    list.push(small.clone());
                }
                let labels = json!({"a": "1".repeat(1_000_000), "b": "2"});
                let body = json!({"metadata": {"labels": labels}, "spec": spec});
                let pod = prepared(body.clone());
                let mut errors = ErrorList::new();
                validate_pod(&pod, &mut errors);
                let is_refused = errors.iter().any(|error| error.to_string() == REFUSED);
                (is_refused, pod.at(&["spec"]) == body.get("spec"))
            })
        };
        assert_eq!(filled(3), [(false, false); 3]);
        assert_eq!(filled(1_000), [(true, true); 3]);
    }

    #[test]
    fn profiles_in_annotations_become_fields() {
        let annotation =
            |name: &str| format!("container.apparmor.security.beta.kubernetes.io/{name}");
        let profile = |kind: &str| json!({"appArmorProfile": {"type": kind}});
        let mut body = json!({
            "metadata": {"annotations": {
                annotation("c"): "runtime/default",
                annotation("d"): "unconfined",
                annotation("e"): "localhost/x",
                annotation("f"): "localhost/",
                annotation("g"): "unconfined",
            }},
            "spec": {
                "securityContext": profile("RuntimeDefault"),
                "containers": [{"name": "c"}, {"name": "d"}, {"name": "e"}, {"name": "f"},
                    {"name": "g", "securityContext": profile("RuntimeDefault")}],
            },
        });
        let contexts = |pod: &Object| -> Vec<Value> {
            let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array);
            let containers = containers.unwrap().iter();
            containers
                .map(|container| container["securityContext"].clone())
                .collect()
        };
        let local = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}});
        let expected = [
            Value::Null,
            profile("Unconfined"),
            local,
            Value::Null,
            profile("RuntimeDefault"),
        ];
        assert_eq!(contexts(&prepared(body.clone())), expected);
        body["spec"]["os"] = json!({"name": "windows"});
        assert_eq!(contexts(&prepared(body))[1], Value::Null);
    }
}
