//! Validation of the group apps, ReplicationControllers and PodTemplates.

mod daemonsets;
mod deployments;
mod replicas;
mod revisions;
mod statefulsets;

use api::field::Field;
use api::object::Object;

use super::immutable::{IMMUTABLE, is_same};
use super::pods::validate_pod_template_spec;
use super::selectors::{
    invalid_selector, is_empty, is_evaluable, selects, validate_label_selector,
};
use api::error_list::ErrorList;

pub use daemonsets::{
    validate_daemonset, validate_daemonset_status_update, validate_daemonset_update,
};
pub use deployments::{
    validate_deployment, validate_deployment_status_update, validate_deployment_update,
};
pub use replicas::{
    validate_replicaset, validate_replicaset_status_update, validate_replicaset_update,
    validate_replicationcontroller, validate_replicationcontroller_status_update,
    validate_replicationcontroller_update,
};
pub use revisions::{validate_controllerrevision, validate_controllerrevision_update};
pub use statefulsets::{
    validate_statefulset, validate_statefulset_status_update, validate_statefulset_update,
};

/// The message about a template that the selector does not select.
pub(super) const NOT_SELECTED: &str = "`selector` does not match template `labels`";

/// The message about counts of a status.
const ABOVE_REPLICAS: &str = "cannot be greater than status.replicas";

/// Validates a PodTemplate.
pub fn validate_podtemplate(object: &Object, errors: &mut ErrorList) {
    validate_pod_template_spec(&Field::of(object, "template"), errors);
}

/// Validates an update of a PodTemplate, which may change freely.
pub fn validate_podtemplate_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_podtemplate(object, errors);
}

/// Validates that a selector is valid and not empty. Returns whether it can be evaluated.
fn validate_selector(
    selector: &Field<'_>,
    empty: &str,
    invalid: &str,
    errors: &mut ErrorList,
) -> bool {
    if selector.is_set() {
        validate_label_selector(selector, false, errors);
        if is_empty(selector) {
            errors.push(invalid_selector(selector, empty));
        }
    } else {
        errors.push(selector.required(""));
    }
    let is_evaluable = is_evaluable(selector);
    if !is_evaluable {
        errors.push(invalid_selector(selector, invalid));
    }
    is_evaluable
}

/// Validates that a selector selects the labels of a template. An empty selector selects every
/// template.
fn validate_is_selected(selector: &Field<'_>, template: &Field<'_>, errors: &mut ErrorList) {
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if !selects(selector, &labels) {
        errors.push(labels.invalid(NOT_SELECTED));
    }
}

/// Validates that pods of a template are always restarted and have no deadline.
fn validate_runs_forever(template: &Field<'_>, kind: &str, errors: &mut ErrorList) {
    let spec = template.member("spec");
    let policy = spec.member("restartPolicy");
    if policy.text() != "Always" {
        errors.push(policy.not_supported(&["Always"]));
    }
    let deadline = spec.member("activeDeadlineSeconds");
    if deadline.is_set() {
        errors
            .push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

/// Validates the template of a ReplicaSet or of a kind that creates ReplicaSets.
fn validate_replicated_template(
    selector: &Field<'_>,
    template: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_is_selected(selector, template, errors);
    validate_pod_template_spec(template, errors);
    validate_runs_forever(template, "ReplicaSet", errors);
}

/// Validates that the selector is unchanged.
fn validate_selector_stays(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (spec, old) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    let selector = spec.member("selector");
    if !is_same(selector.value(), old.member("selector").value()) {
        errors.push(invalid_selector(&selector, IMMUTABLE));
    }
}

#[cfg(test)]
mod tests;
