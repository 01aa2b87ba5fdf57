//! What is refused of Deployments.

use api::field::Field;
use api::object::Object;

use super::{
    ABOVE_REPLICAS, validate_replicated_template, validate_selector, validate_selector_stays,
};
use crate::validation::Faults;
use crate::validation::counts::{
    decremented, is_zero, number, validate_all_nonnegative, validate_at_most_all,
    validate_nonnegative, validate_not_above, validate_number_or_percent,
};
use crate::validation::internal::internal_json;
use api::field_error::{FieldError, FieldErrorKind};

/// The revision that a Deployment is to return to, which a field of an older version said.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The faults of a Deployment.
pub fn validate_deployment(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_nonnegative(&spec.member("replicas"), &mut faults);
    let selector = spec.member("selector");
    let empty = "empty selector is invalid for deployment";
    if validate_selector(&selector, empty, "invalid label selector", &mut faults) {
        validate_replicated_template(&selector, &spec.member("template"), &mut faults);
    }
    validate_strategy(&spec.member("strategy"), &mut faults);
    let ready = spec.member("minReadySeconds");
    validate_nonnegative(&ready, &mut faults);
    validate_nonnegative(&spec.member("revisionHistoryLimit"), &mut faults);
    validate_rollback(object, &mut faults);
    let deadline = spec.member("progressDeadlineSeconds");
    validate_nonnegative(&deadline, &mut faults);
    if deadline
        .int()
        .is_some_and(|seconds| seconds <= number(&ready))
    {
        faults.push(deadline.invalid("must be greater than minReadySeconds"));
    }
    faults
}

fn validate_rollback(object: &Object, faults: &mut Faults) {
    let revision = object.text(&["metadata", "annotations", ROLLBACK_TO]);
    if let Some(revision) = revision
        .parse::<i64>()
        .ok()
        .filter(|revision| *revision < 0)
    {
        let message = "must be greater than or equal to 0";
        faults.push(FieldError::invalid(
            "spec.rollback.version",
            revision,
            message,
        ));
    }
}

/// A strategy is not one of those that there are.
pub(super) fn unsupported_strategy(
    strategy: &Field<'_>,
    type_name: &str,
    supported: &[&str],
) -> FieldError {
    let of_all = strategy.not_supported(supported);
    FieldError {
        kind: FieldErrorKind::NotSupported,
        value: internal_json(type_name, strategy.value()),
        ..of_all
    }
}

fn validate_strategy(strategy: &Field<'_>, faults: &mut Faults) {
    let rolling = strategy.member("rollingUpdate");
    match strategy.member("type").text() {
        "Recreate" if rolling.is_set() => faults
            .push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")),
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            faults.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => validate_rolling_update(&rolling, faults),
        _ => faults.push(unsupported_strategy(
            strategy,
            "apps.v1.DeploymentStrategy",
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn validate_rolling_update(rolling: &Field<'_>, faults: &mut Faults) {
    let unavailable = rolling.member("maxUnavailable");
    let surge = rolling.member("maxSurge");
    validate_number_or_percent(&unavailable, faults);
    validate_number_or_percent(&surge, faults);
    if is_zero(&unavailable) && is_zero(&surge) {
        faults.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    validate_at_most_all(&unavailable, faults);
}

/// The faults of a change to a Deployment.
pub fn validate_deployment_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_deployment(object);
    validate_selector_stays(object, stored, &mut faults);
    faults
}

/// The faults of a change to the status of a Deployment.
pub fn validate_deployment_status_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
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
    validate_all_nonnegative(&status, &counts, &mut faults);
    let replicas = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    validate_not_above(&status, &replicas, "replicas", ABOVE_REPLICAS, &mut faults);
    let message = "cannot be greater than readyReplicas";
    validate_not_above(
        &status,
        &["availableReplicas"],
        "readyReplicas",
        message,
        &mut faults,
    );
    let collisions = status.member("collisionCount");
    faults.extend(decremented(&collisions, &old.member("collisionCount")));
    faults
}
