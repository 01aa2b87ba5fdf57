//! Fields of disabled feature gates. As in Kubernetes, they are dropped after ownership is
//! computed, so that their writer owns them anyway. An object that already uses a feature keeps its
//! fields (API-103). Each function returns whether it dropped any.

use api::object::Object;
use serde_json::Value;

/// A path of member names, with `*` for each item of a list.
type Path = &'static [&'static str];

/// The fields of a feature. An object that has one of them uses the feature.
type Feature = &'static [Path];

/// The features of pods: gang scheduling, cluster trust bundles, pod certificates, and stop
/// signals.
const OF_PODS: &[Feature] = &[
    &[&["schedulingGroup"]],
    &[&[
        "volumes",
        "*",
        "projected",
        "sources",
        "*",
        "clusterTrustBundle",
    ]],
    &[&[
        "volumes",
        "*",
        "projected",
        "sources",
        "*",
        "podCertificate",
    ]],
    &[
        &["initContainers", "*", LIFECYCLE, "stopSignal"],
        &["containers", "*", LIFECYCLE, "stopSignal"],
        &["ephemeralContainers", "*", LIFECYCLE, "stopSignal"],
    ],
];

/// The member that is dropped too when it becomes empty.
const LIFECYCLE: &str = "lifecycle";

/// Drops fields of coordinated leader election.
pub fn drop_of_lease(object: &mut Object, stored: Option<&Object>) -> bool {
    let features: &[Feature] = &[&[&["strategy"]], &[&["preferredHolder"]]];
    drop_unused(object, stored, &["spec"], features)
}

/// Drops dynamic kubelet configuration.
pub fn drop_of_node(object: &mut Object, stored: Option<&Object>) -> bool {
    drop_unused(object, stored, &["spec"], &[&[&["configSource"]]])
}

/// Drops the field that holds back pods until their driver is installed.
pub fn drop_of_csidriver(object: &mut Object, stored: Option<&Object>) -> bool {
    let features: &[Feature] = &[&[&["preventPodSchedulingIfMissing"]]];
    drop_unused(object, stored, &["spec"], features)
}

/// Drops fields of disabled features from a Pod.
pub fn drop_of_pod(object: &mut Object, stored: Option<&Object>) -> bool {
    drop_unused(object, stored, &["spec"], OF_PODS)
}

/// Drops fields of disabled features from a PodTemplate.
pub fn drop_of_podtemplate(object: &mut Object, stored: Option<&Object>) -> bool {
    drop_unused(object, stored, &["template", "spec"], OF_PODS)
}

/// Drops fields of disabled features from the pod template of a workload.
pub fn drop_of_template(object: &mut Object, stored: Option<&Object>) -> bool {
    drop_unused(object, stored, &["spec", "template", "spec"], OF_PODS)
}

/// Drops fields of disabled features from the pod template of a CronJob.
pub fn drop_of_cronjob(object: &mut Object, stored: Option<&Object>) -> bool {
    let pods = ["spec", "jobTemplate", "spec", "template", "spec"];
    drop_unused(object, stored, &pods, OF_PODS)
}

/// Drops fields of disabled features from a StatefulSet, including `maxUnavailable`.
pub fn drop_of_statefulset(object: &mut Object, stored: Option<&Object>) -> bool {
    let rolling = ["spec", "updateStrategy", "rollingUpdate"];
    let is_dropped = drop_unused(object, stored, &rolling, &[&[&["maxUnavailable"]]]);
    drop_of_template(object, stored) || is_dropped
}

/// Drops the fields of each feature that the stored object does not use.
fn drop_unused(
    object: &mut Object,
    stored: Option<&Object>,
    below: &[&str],
    features: &[Feature],
) -> bool {
    let stored = stored.and_then(|stored| stored.at(below));
    let Some(part) = object.at_mut(below) else {
        return false;
    };
    let is_unused = |feature: &&Feature| {
        let mut paths = feature.iter();
        !stored.is_some_and(|stored| paths.any(|path| is_used(stored, path)))
    };
    let unused = features.iter().filter(is_unused).copied().flatten();
    unused.fold(false, |is_dropped, path| drop(part, path) | is_dropped)
}

fn is_used(value: &Value, path: &[&str]) -> bool {
    match (path, value) {
        ([], value) => !value.is_null(),
        (["*", rest @ ..], Value::Array(items)) => items.iter().any(|item| is_used(item, rest)),
        ([name, rest @ ..], Value::Object(members)) => {
            members.get(*name).is_some_and(|value| is_used(value, rest))
        }
        _ => false,
    }
}

fn drop(value: &mut Value, path: &[&str]) -> bool {
    match (path, value) {
        (["*", rest @ ..], Value::Array(items)) => items
            .iter_mut()
            .fold(false, |is_dropped, item| drop(item, rest) | is_dropped),
        ([name], Value::Object(members)) => {
            members.remove(*name).is_some_and(|value| !value.is_null())
        }
        ([name, rest @ ..], Value::Object(members)) => {
            let Some(inner) = members.get_mut(*name) else {
                return false;
            };
            let is_dropped = drop(inner, rest);
            let mut left = inner.as_object().into_iter().flat_map(|left| left.values());
            if is_dropped && *name == LIFECYCLE && left.all(Value::is_null) {
                members.remove(*name);
            }
            is_dropped
        }
        _ => false,
    }
}

/// For tests: pods with defaults and without fields of disabled features, as they are validated.
#[cfg(test)]
pub mod testing {
    use api::object::Object;

    use crate::defaults::{member, pods};

    /// Prepares a Pod for validation.
    pub fn fill_in_pod(object: &mut Object) {
        pods::pod(object);
        super::drop_of_pod(object, None);
    }

    /// Prepares a PodTemplate for validation.
    pub fn fill_in_template(object: &mut Object) {
        let template = member(&mut object.0, "template");
        pods::pod_template_spec(template.expect("a template"));
        super::drop_of_podtemplate(object, None);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().expect("an object").clone())
    }

    /// API-250: defaulting keeps such fields for their owners, and they are dropped afterwards.
    #[test]
    fn fields_of_features_that_are_off_are_filled_in_and_then_dropped() {
        let template = json!({"spec": {
            "schedulingGroup": {"podGroupName": "g"},
            "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}],
            "containers": [
                {"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}},
                {"name": "d", "lifecycle": {"stopSignal": "SIGTERM", "preStop": {}}},
            ],
        }});
        let mut set = object(json!({"spec": {
            "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
        }}));
        crate::defaults::workloads::statefulset(&mut set);
        let spec = &set.0["spec"];
        assert_eq!(
            spec["updateStrategy"]["rollingUpdate"],
            json!({"maxUnavailable": 2, "partition": 0})
        );
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["schedulingGroup"], json!({"podGroupName": "g"}));
        let lifecycle = json!({"stopSignal": "SIGTERM"});
        assert_eq!(pod["containers"][0]["lifecycle"], lifecycle);
        let source = json!({"podCertificate": {}});
        assert_eq!(pod["volumes"][0]["projected"]["sources"][0], source);

        assert!(drop_of_statefulset(&mut set, None));
        let spec = &set.0["spec"];
        let rolling = json!({"partition": 0});
        assert_eq!(spec["updateStrategy"]["rollingUpdate"], rolling);
        let pod = &spec["template"]["spec"];
        assert_eq!(pod.get("schedulingGroup"), None);
        assert_eq!(pod["containers"][0].get("lifecycle"), None);
        assert_eq!(pod["containers"][1]["lifecycle"], json!({"preStop": {}}));
        assert_eq!(pod["volumes"][0]["projected"]["sources"], json!([{}]));
        assert!(!drop_of_statefulset(&mut set, None));
    }

    /// API-103: an object keeps the features that it uses, and gets no others.
    #[test]
    fn fields_of_features_that_are_used_already_stay() {
        let pod = |spec: Value| object(json!({"spec": spec}));
        let signal = |signal: &str| json!({"name": "c", "lifecycle": {"stopSignal": signal}});
        let stored = pod(json!({"initContainers": [signal("SIGINT")]}));
        let mut changed = pod(json!({
            "schedulingGroup": {"podGroupName": "g"},
            "initContainers": [],
            "containers": [signal("SIGTERM")],
        }));
        assert!(drop_of_pod(&mut changed, Some(&stored)));
        let kept = json!({"initContainers": [], "containers": [signal("SIGTERM")]});
        assert_eq!(changed.at(&["spec"]), Some(&kept));

        let source = |name: &str| json!({"projected": {"sources": [{name: {"path": "p"}}]}});
        let certificate = pod(json!({"volumes": [source("podCertificate")]}));
        let both = json!([source("podCertificate"), source("clusterTrustBundle")]);
        let mut changed = pod(json!({"volumes": both}));
        assert!(drop_of_pod(&mut changed, Some(&certificate)));
        let kept = json!([source("podCertificate"), {"projected": {"sources": [{}]}}]);
        assert_eq!(changed.at(&["spec", "volumes"]), Some(&kept));

        let lease = json!({"strategy": "OldestEmulationVersion", "preferredHolder": "h"});
        let mut changed = pod(lease);
        assert!(drop_of_lease(
            &mut changed,
            Some(&pod(json!({"preferredHolder": "g"})))
        ));
        assert_eq!(changed, pod(json!({"preferredHolder": "h"})));
    }

    /// Every kind that contains pods drops these fields.
    #[test]
    fn every_kind_with_pods_drops_them() {
        let pod = json!({"spec": {"schedulingGroup": {}}});
        let job = json!({"spec": {"template": pod}});
        for (kind, whole) in [
            ("Pod", pod.clone()),
            ("PodTemplate", json!({"template": pod})),
            ("ReplicationController", job.clone()),
            ("Deployment", job.clone()),
            ("DaemonSet", job.clone()),
            ("ReplicaSet", job.clone()),
            ("StatefulSet", job.clone()),
            ("Job", job.clone()),
            ("CronJob", json!({"spec": {"jobTemplate": job}})),
        ] {
            let mut rows = crate::definitions::built_in().into_iter();
            let row = rows.find(|row| row.kind == kind).expect("a kind");
            let drop = |object: &mut Object, stored| row.behaviour.drop_disabled(object, stored);
            assert!(drop(&mut object(whole.clone()), None), "{kind}");
            let stored = object(whole.clone());
            let mut same = object(whole);
            assert!(!drop(&mut same, Some(&stored)), "{kind}");
            assert_eq!(same, stored);
        }
    }
}
