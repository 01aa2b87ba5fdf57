//! Validation of Deployments.

use api::field::{Field, LazyError};
use api::object::Object;

use super::{
    ABOVE_REPLICAS, validate_replicated_template, validate_selector, validate_selector_stays,
};
use crate::types::internal::internal_json;
use crate::validation::numbers::{
    decremented, is_zero, number, validate_all_nonnegative, validate_at_most_all,
    validate_nonnegative, validate_not_above, validate_number_or_percent,
};
use api::error_list::ErrorList;
use api::field_error::FieldError;

/// The annotation that replaced `spec.rollbackTo`, the revision to roll a Deployment back to.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Validates a Deployment.
pub fn validate_deployment(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_nonnegative(&spec.member("replicas"), errors);
    let selector = spec.member("selector");
    let empty = "empty selector is invalid for deployment";
    if validate_selector(&selector, empty, "invalid label selector", errors) {
        validate_replicated_template(&selector, &spec.member("template"), errors);
    }
    validate_strategy(&spec.member("strategy"), errors);
    let ready = spec.member("minReadySeconds");
    validate_nonnegative(&ready, errors);
    validate_nonnegative(&spec.member("revisionHistoryLimit"), errors);
    validate_rollback(object, errors);
    let deadline = spec.member("progressDeadlineSeconds");
    validate_nonnegative(&deadline, errors);
    if deadline
        .int()
        .is_some_and(|seconds| seconds <= number(&ready))
    {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn validate_rollback(object: &Object, errors: &mut ErrorList) {
    let revision = object.text(&["metadata", "annotations", ROLLBACK_TO]);
    if let Some(revision) = revision
        .parse::<i64>()
        .ok()
        .filter(|revision| *revision < 0)
    {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            "spec.rollback.version",
            revision,
            message,
        ));
    }
}

/// Returns the error of an unknown strategy.
pub(super) fn unsupported_strategy<'f>(
    strategy: &Field<'f>,
    type_name: &'f str,
    supported: &'f [&'f str],
) -> LazyError<'f> {
    let value = strategy.value();
    let error = strategy.not_supported(supported);
    error.showing_json(move || internal_json(type_name, value))
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut ErrorList) {
    let rolling = strategy.member("rollingUpdate");
    match strategy.member("type").text() {
        "Recreate" if rolling.is_set() => errors
            .push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")),
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        _ => errors.push(unsupported_strategy(
            strategy,
            "apps.v1.DeploymentStrategy",
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn validate_rolling_update(rolling: &Field<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.member("maxUnavailable");
    let surge = rolling.member("maxSurge");
    validate_number_or_percent(&unavailable, errors);
    validate_number_or_percent(&surge, errors);
    if is_zero(&unavailable) && is_zero(&surge) {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    validate_at_most_all(&unavailable, errors);
}

/// Validates an update of a Deployment.
pub fn validate_deployment_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_deployment(object, errors);
    validate_selector_stays(object, stored, errors);
}

/// Validates an update of the status of a Deployment.
pub fn validate_deployment_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (status, old) = (Field::of(object, "status"), Field::of(stored, "status"));
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    validate_all_nonnegative(&status, &counts, errors);
    let replicas = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    validate_not_above(&status, &replicas, "replicas", ABOVE_REPLICAS, errors);
    let message = "cannot be greater than readyReplicas";
    validate_not_above(
        &status,
        &["availableReplicas"],
        "readyReplicas",
        message,
        errors,
    );
    let collisions = status.member("collisionCount");
    errors.extend(decremented(&collisions, &old.member("collisionCount")));
}
