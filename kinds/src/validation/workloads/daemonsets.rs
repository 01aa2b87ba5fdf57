//! Validation of DaemonSets.

use api::field::Field;
use api::object::Object;

use super::deployments::unsupported_strategy;
use super::{validate_is_selected, validate_runs_forever, validate_selector_stays};
use crate::validation::numbers::{
    decremented, is_zero, validate_all_nonnegative, validate_at_most_all, validate_nonnegative,
    validate_number_or_percent,
};
use crate::validation::pods::validate_pod_template_spec;
use crate::validation::selectors::{
    invalid_selector, is_empty, is_evaluable, validate_label_selector,
};
use api::error_list::ErrorList;

/// Validates a DaemonSet.
pub fn validate_daemonset(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let (selector, template) = (spec.member("selector"), spec.member("template"));
    validate_label_selector(&selector, false, errors);
    if is_evaluable(&selector) {
        validate_is_selected(&selector, &template, errors);
    }
    if selector.is_set() && is_empty(&selector) {
        errors.push(invalid_selector(
            &selector,
            "empty selector is invalid for daemonset",
        ));
    }
    validate_pod_template_spec(&template, errors);
    validate_runs_forever(&template, "DaemonSet", errors);
    validate_nonnegative(&spec.member("minReadySeconds"), errors);
    validate_strategy(&spec.member("updateStrategy"), errors);
    validate_nonnegative(&spec.member("revisionHistoryLimit"), errors);
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut ErrorList) {
    let rolling = strategy.member("rollingUpdate");
    match strategy.member("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        _ => errors.push(unsupported_strategy(
            strategy,
            "apps.v1.DaemonSetUpdateStrategy",
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn validate_rolling_update(rolling: &Field<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.member("maxUnavailable");
    let surge = rolling.member("maxSurge");
    validate_number_or_percent(&unavailable, errors);
    validate_number_or_percent(&surge, errors);
    validate_at_most_all(&unavailable, errors);
    validate_at_most_all(&surge, errors);
    match (is_zero(&unavailable), is_zero(&surge)) {
        (false, false) => {
            errors.push(surge.invalid("may not be set when maxUnavailable is non-zero"));
        }
        (true, true) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

/// Validates an update of a DaemonSet.
pub fn validate_daemonset_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_selector_stays(object, stored, errors);
    validate_daemonset(object, errors);
}

/// Validates an update of the status of a DaemonSet.
pub fn validate_daemonset_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (status, old) = (Field::of(object, "status"), Field::of(stored, "status"));
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    validate_all_nonnegative(&status, &counts, errors);
    let collisions = status.member("collisionCount");
    errors.extend(decremented(&collisions, &old.member("collisionCount")));
}
