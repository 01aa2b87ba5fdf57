//! What is refused of ReplicaSets and ReplicationControllers.

use api::field::Field;
use api::object::Object;

use super::{
    ABOVE_REPLICAS, NOT_SELECTED, validate_replicated_template, validate_runs_forever,
    validate_selector, validate_selector_stays,
};
use crate::validation::Faults;
use crate::validation::counts::{
    validate_all_nonnegative, validate_nonnegative, validate_not_above,
};
use crate::validation::pods::validate_pod_template_spec;
use crate::validation::selectors::labels_select;

/// The faults of a ReplicaSet.
pub fn validate_replicaset(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_all_nonnegative(&spec, &["replicas", "minReadySeconds"], &mut faults);
    let selector = spec.member("selector");
    let empty = "empty selector is invalid for deployment";
    if validate_selector(&selector, empty, "invalid label selector", &mut faults) {
        validate_replicated_template(&selector, &spec.member("template"), &mut faults);
    }
    faults
}

/// The faults of a change to a ReplicaSet.
pub fn validate_replicaset_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_replicaset(object);
    validate_selector_stays(object, stored, &mut faults);
    faults
}

/// The faults of a change to the status of a ReplicaSet.
pub fn validate_replicaset_status_update(object: &Object, _stored: &Object) -> Faults {
    validate_status(object, &["terminatingReplicas"])
}

/// The faults of a status with these counts beside those that both kinds have. The replicas that
/// are in some state are not more than all.
fn validate_status(object: &Object, more_counts: &[&str]) -> Faults {
    let mut faults = Faults::new();
    let status = Field::of(object, "status");
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    validate_all_nonnegative(&status, &counts, &mut faults);
    validate_all_nonnegative(&status, more_counts, &mut faults);
    let replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_not_above(&status, &replicas, "replicas", ABOVE_REPLICAS, &mut faults);
    let message = "cannot be greater than readyReplicas";
    validate_not_above(
        &status,
        &["availableReplicas"],
        "readyReplicas",
        message,
        &mut faults,
    );
    faults
}

/// The faults of a ReplicationController, whose selector is a map of labels.
pub fn validate_replicationcontroller(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_nonnegative(&spec.member("minReadySeconds"), &mut faults);
    let selector = spec.member("selector");
    if selector.is_empty() {
        faults.push(selector.required(""));
    }
    let replicas = spec.member("replicas");
    if !replicas.is_set() {
        faults.push(replicas.required(""));
    }
    validate_nonnegative(&replicas, &mut faults);
    let template = spec.member("template");
    if !template.is_set() {
        faults.push(template.required(""));
        return faults;
    }
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if !labels_select(&selector, &labels) {
        faults.push(labels.invalid(NOT_SELECTED));
    }
    validate_pod_template_spec(&template, &mut faults);
    validate_runs_forever(&template, "ReplicationController", &mut faults);
    faults
}

/// The faults of a change to a ReplicationController.
pub fn validate_replicationcontroller_update(object: &Object, _stored: &Object) -> Faults {
    validate_replicationcontroller(object)
}

/// The faults of a change to the status of a ReplicationController.
pub fn validate_replicationcontroller_status_update(object: &Object, _stored: &Object) -> Faults {
    validate_status(object, &[])
}
