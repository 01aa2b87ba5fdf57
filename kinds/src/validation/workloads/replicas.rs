//! Validation of ReplicaSets and ReplicationControllers.

use api::field::Field;
use api::object::Object;

use super::{
    ABOVE_REPLICAS, NOT_SELECTED, validate_replicated_template, validate_runs_forever,
    validate_selector, validate_selector_stays,
};
use crate::validation::numbers::{
    validate_all_nonnegative, validate_nonnegative, validate_not_above,
};
use crate::validation::pods::validate_pod_template_spec;
use crate::validation::selectors::labels_select;
use api::error_list::ErrorList;

/// Validates a ReplicaSet.
pub fn validate_replicaset(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_all_nonnegative(&spec, &["replicas", "minReadySeconds"], errors);
    let selector = spec.member("selector");
    let empty = "empty selector is invalid for deployment";
    if validate_selector(&selector, empty, "invalid label selector", errors) {
        validate_replicated_template(&selector, &spec.member("template"), errors);
    }
}

/// Validates an update of a ReplicaSet.
pub fn validate_replicaset_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_replicaset(object, errors);
    validate_selector_stays(object, stored, errors);
}

/// Validates an update of the status of a ReplicaSet.
pub fn validate_replicaset_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_status(object, &["terminatingReplicas"], errors);
}

/// Validates the counts of a status, `more_counts` in addition to those of both kinds. Replicas in
/// a certain state must not be more than all.
fn validate_status(object: &Object, more_counts: &[&str], errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    validate_all_nonnegative(&status, &counts, errors);
    validate_all_nonnegative(&status, more_counts, errors);
    let replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_not_above(&status, &replicas, "replicas", ABOVE_REPLICAS, errors);
    let message = "cannot be greater than readyReplicas";
    validate_not_above(
        &status,
        &["availableReplicas"],
        "readyReplicas",
        message,
        errors,
    );
}

/// Validates a ReplicationController, whose selector is a map of labels.
pub fn validate_replicationcontroller(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_nonnegative(&spec.member("minReadySeconds"), errors);
    let selector = spec.member("selector");
    if selector.is_empty() {
        errors.push(selector.required(""));
    }
    let replicas = spec.member("replicas");
    if !replicas.is_set() {
        errors.push(replicas.required(""));
    }
    validate_nonnegative(&replicas, errors);
    let template = spec.member("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if !labels_select(&selector, &labels) {
        errors.push(labels.invalid(NOT_SELECTED));
    }
    validate_pod_template_spec(&template, errors);
    validate_runs_forever(&template, "ReplicationController", errors);
}

/// Validates an update of a ReplicationController.
pub fn validate_replicationcontroller_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_replicationcontroller(object, errors);
}

/// Validates an update of the status of a ReplicationController.
pub fn validate_replicationcontroller_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_status(object, &[], errors);
}
