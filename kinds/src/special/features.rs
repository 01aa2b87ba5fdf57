//! Fields of features that are off. They are dropped late, as in Kubernetes: who gave one owns it
//! nevertheless. Each function says whether it has dropped any.

use api::object::Object;
use serde_json::Value;

use crate::defaults::{Members, items, member};

/// Sources of files of a projected volume.
const PROJECTIONS: [&str; 2] = ["clusterTrustBundle", "podCertificate"];

/// Coordinated leader election.
pub fn drop_of_lease(object: &mut Object) -> bool {
    drop_of_spec(object, &["strategy", "preferredHolder"])
}

/// Configurations of kubelets.
pub fn drop_of_node(object: &mut Object) -> bool {
    drop_of_spec(object, &["configSource"])
}

/// Pods that wait for drivers.
pub fn drop_of_csidriver(object: &mut Object) -> bool {
    drop_of_spec(object, &["preventPodSchedulingIfMissing"])
}

fn drop_of_spec(object: &mut Object, names: &[&str]) -> bool {
    member(&mut object.0, "spec").is_some_and(|spec| drop(spec, names))
}

/// What pods have of features that are off.
pub fn drop_of_pod(object: &mut Object) -> bool {
    of_pod(&mut object.0)
}

/// The same in a PodTemplate.
pub fn drop_of_podtemplate(object: &mut Object) -> bool {
    of_template(&mut object.0)
}

/// The same in the template of an object that makes pods.
pub fn drop_of_template(object: &mut Object) -> bool {
    member(&mut object.0, "spec").is_some_and(of_template)
}

/// The same in the template of the Jobs of a CronJob.
pub fn drop_of_cronjob(object: &mut Object) -> bool {
    let spec = member(&mut object.0, "spec");
    let job = spec.and_then(|spec| member(member(spec, "jobTemplate")?, "spec"));
    job.is_some_and(of_template)
}

/// The same in a StatefulSet, and how many of its pods may be away during an update.
pub fn drop_of_statefulset(object: &mut Object) -> bool {
    let Some(spec) = member(&mut object.0, "spec") else {
        return false;
    };
    let rolling = member(spec, "updateStrategy");
    let rolling = rolling.and_then(|strategy| member(strategy, "rollingUpdate"));
    let is_dropped = rolling.is_some_and(|rolling| drop(rolling, &["maxUnavailable"]));
    of_template(spec) || is_dropped
}

fn of_template(members: &mut Members) -> bool {
    member(members, "template").is_some_and(of_pod)
}

/// Groups of pods that are scheduled together, sources of files, and signals that stop containers.
fn of_pod(members: &mut Members) -> bool {
    let Some(spec) = member(members, "spec") else {
        return false;
    };
    let mut is_dropped = drop(spec, &["schedulingGroup"]);
    for volume in items(spec, "volumes") {
        let projected = member(volume, "projected");
        for source in projected.into_iter().flat_map(|of| items(of, "sources")) {
            is_dropped |= drop(source, &PROJECTIONS);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            is_dropped |= of_container(container);
        }
    }
    is_dropped
}

/// A lifecycle of which nothing is left is dropped, too.
fn of_container(container: &mut Members) -> bool {
    let Some(lifecycle) = member(container, "lifecycle") else {
        return false;
    };
    let is_dropped = drop(lifecycle, &["stopSignal"]);
    if is_dropped && lifecycle.values().all(Value::is_null) {
        container.remove("lifecycle");
    }
    is_dropped
}

fn drop(members: &mut Members, names: &[&str]) -> bool {
    let mut is_dropped = false;
    for name in names {
        is_dropped |= members.remove(*name).is_some_and(|value| !value.is_null());
    }
    is_dropped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().expect("an object").clone())
    }

    /// API-250: the defaults leave the fields to their writers, and they are dropped afterwards.
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

        assert!(drop_of_statefulset(&mut set));
        let spec = &set.0["spec"];
        let rolling = json!({"partition": 0});
        assert_eq!(spec["updateStrategy"]["rollingUpdate"], rolling);
        let pod = &spec["template"]["spec"];
        assert_eq!(pod.get("schedulingGroup"), None);
        assert_eq!(pod["containers"][0].get("lifecycle"), None);
        assert_eq!(pod["containers"][1]["lifecycle"], json!({"preStop": {}}));
        assert_eq!(pod["volumes"][0]["projected"]["sources"], json!([{}]));
        assert!(!drop_of_statefulset(&mut set));
    }

    /// Every kind that has pods in it says what it drops.
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
            let disabled = row.disabled.expect("a function");
            assert!(disabled(&mut object(whole)), "{kind}");
        }
    }
}
