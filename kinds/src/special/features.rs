//! Fields of features that are off. They are dropped late, as in Kubernetes: who gave one owns it
//! nevertheless.

use api::object::Object;

/// Coordinated leader election.
pub fn prepare_lease(object: &mut Object) {
    drop(object, &["strategy", "preferredHolder"]);
}

/// Coordinated leader election, in an update.
pub fn prepare_lease_update(object: &mut Object, _: &Object) {
    prepare_lease(object);
}

/// Configurations of kubelets.
pub fn prepare_node(object: &mut Object) {
    drop(object, &["configSource"]);
}

/// Configurations of kubelets, in an update.
pub fn prepare_node_update(object: &mut Object, _: &Object) {
    prepare_node(object);
}

/// Pods that wait for drivers.
pub fn prepare_csidriver(object: &mut Object) {
    drop(object, &["preventPodSchedulingIfMissing"]);
}

/// Pods that wait for drivers, in an update.
pub fn prepare_csidriver_update(object: &mut Object, _: &Object) {
    prepare_csidriver(object);
}

fn drop(object: &mut Object, names: &[&str]) {
    let spec = object.0.get_mut("spec");
    if let Some(spec) = spec.and_then(serde_json::Value::as_object_mut) {
        for name in names {
            spec.remove(*name);
        }
    }
}
