use super::*;
use crate::defaults::workloads::{
    daemonset, deployment, podtemplate, replicaset, replicationcontroller, statefulset,
};
use crate::recorded::{Functions, check};
use crate::strategies::disabled_fields;

type Defaults = Option<fn(&mut Object)>;
type Create = fn(&Object, &mut ErrorList);
type Update = fn(&Object, &Object, &mut ErrorList);

/// Sets the defaults of an object and drops its fields of disabled features.
fn without(
    object: &mut Object,
    defaults: fn(&mut Object),
    drop: fn(&mut Object, Option<&Object>) -> bool,
) {
    defaults(object);
    drop(object, None);
}

fn functions(path: &str) -> Functions {
    let kind = path.split("/default/").nth(1).unwrap();
    let (defaults, create, update): (Defaults, Create, Update) = match kind {
        "deployments" => (
            Some(|o| without(o, deployment, disabled_fields::drop_of_template)),
            validate_deployment,
            validate_deployment_update,
        ),
        "deployments/status" => (
            Some(|o| without(o, deployment, disabled_fields::drop_of_template)),
            validate_deployment,
            validate_deployment_status_update,
        ),
        "replicasets" => (
            Some(|o| without(o, replicaset, disabled_fields::drop_of_template)),
            validate_replicaset,
            validate_replicaset_update,
        ),
        "replicasets/status" => (
            Some(|o| without(o, replicaset, disabled_fields::drop_of_template)),
            validate_replicaset,
            validate_replicaset_status_update,
        ),
        "daemonsets" => (
            Some(|o| without(o, daemonset, disabled_fields::drop_of_template)),
            validate_daemonset,
            validate_daemonset_update,
        ),
        "daemonsets/status" => (
            Some(|o| without(o, daemonset, disabled_fields::drop_of_template)),
            validate_daemonset,
            validate_daemonset_status_update,
        ),
        "statefulsets" => (
            Some(|o| without(o, statefulset, disabled_fields::drop_of_statefulset)),
            validate_statefulset,
            validate_statefulset_update,
        ),
        "statefulsets/status" => (
            Some(|o| without(o, statefulset, disabled_fields::drop_of_statefulset)),
            validate_statefulset,
            validate_statefulset_status_update,
        ),
        "replicationcontrollers" => (
            Some(|o| without(o, replicationcontroller, disabled_fields::drop_of_template)),
            validate_replicationcontroller,
            validate_replicationcontroller_update,
        ),
        "replicationcontrollers/status" => (
            Some(|o| without(o, replicationcontroller, disabled_fields::drop_of_template)),
            validate_replicationcontroller,
            validate_replicationcontroller_status_update,
        ),
        "podtemplates" => (
            Some(|o| without(o, podtemplate, disabled_fields::drop_of_podtemplate)),
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

/// API-250: answers of kube-apiserver 1.36.
#[test]
fn workloads_are_answered_as_by_kubernetes() {
    check(include_str!("../../../recorded/workloads.json"), functions);
}
