use super::*;
use crate::defaults::workloads::{
    daemonset, deployment, podtemplate, replicaset, replicationcontroller, statefulset,
};
use crate::recorded::{Functions, check};

type Defaults = Option<fn(&mut Object)>;
type Create = fn(&Object) -> Faults;
type Update = fn(&Object, &Object) -> Faults;

fn functions(path: &str) -> Functions {
    let kind = path.split("/default/").nth(1).unwrap();
    let (defaults, create, update): (Defaults, Create, Update) = match kind {
        "deployments" => (
            Some(deployment),
            validate_deployment,
            validate_deployment_update,
        ),
        "deployments/status" => (
            Some(deployment),
            validate_deployment,
            validate_deployment_status_update,
        ),
        "replicasets" => (
            Some(replicaset),
            validate_replicaset,
            validate_replicaset_update,
        ),
        "replicasets/status" => (
            Some(replicaset),
            validate_replicaset,
            validate_replicaset_status_update,
        ),
        "daemonsets" => (
            Some(daemonset),
            validate_daemonset,
            validate_daemonset_update,
        ),
        "daemonsets/status" => (
            Some(daemonset),
            validate_daemonset,
            validate_daemonset_status_update,
        ),
        "statefulsets" => (
            Some(statefulset),
            validate_statefulset,
            validate_statefulset_update,
        ),
        "statefulsets/status" => (
            Some(statefulset),
            validate_statefulset,
            validate_statefulset_status_update,
        ),
        "replicationcontrollers" => (
            Some(replicationcontroller),
            validate_replicationcontroller,
            validate_replicationcontroller_update,
        ),
        "replicationcontrollers/status" => (
            Some(replicationcontroller),
            validate_replicationcontroller,
            validate_replicationcontroller_status_update,
        ),
        "podtemplates" => (
            Some(podtemplate),
            validate_podtemplate,
            validate_podtemplate_update,
        ),
        "controllerrevisions" => (
            None,
            validate_controllerrevision,
            validate_controllerrevision_update,
        ),
        other => panic!("{other}"),
    };
    Functions {
        defaults,
        create,
        update: Some(update),
    }
}

/// API-250.
#[test]
fn workloads_are_answered_as_by_kubernetes() {
    check(include_str!("../../../recorded/workloads.json"), functions);
}
