//! What is refused of DaemonSets.

use api::field::Field;
use api::object::Object;

use super::deployments::unsupported_strategy;
use super::{validate_is_selected, validate_runs_forever, validate_selector_stays};
use crate::validation::Faults;
use crate::validation::counts::{
    decremented, is_zero, validate_all_nonnegative, validate_at_most_all, validate_nonnegative,
    validate_number_or_percent,
};
use crate::validation::pods::validate_pod_template_spec;
use crate::validation::selectors::{
    invalid_selector, is_empty, is_evaluable, validate_label_selector,
};

/// The faults of a DaemonSet.
pub fn validate_daemonset(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let (selector, template) = (spec.member("selector"), spec.member("template"));
    validate_label_selector(&selector, false, &mut faults);
    if is_evaluable(&selector) {
        validate_is_selected(&selector, &template, &mut faults);
    }
    if selector.is_set() && is_empty(&selector) {
        faults.push(invalid_selector(
            &selector,
            "empty selector is invalid for daemonset",
        ));
    }
    validate_pod_template_spec(&template, &mut faults);
    validate_runs_forever(&template, "DaemonSet", &mut faults);
    validate_nonnegative(&spec.member("minReadySeconds"), &mut faults);
    validate_strategy(&spec.member("updateStrategy"), &mut faults);
    validate_nonnegative(&spec.member("revisionHistoryLimit"), &mut faults);
    faults
}

fn validate_strategy(strategy: &Field<'_>, faults: &mut Faults) {
    let rolling = strategy.member("rollingUpdate");
    match strategy.member("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => faults.push(rolling.required("")),
        "RollingUpdate" => validate_rolling_update(&rolling, faults),
        _ => faults.push(unsupported_strategy(
            strategy,
            "apps.v1.DaemonSetUpdateStrategy",
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn validate_rolling_update(rolling: &Field<'_>, faults: &mut Faults) {
    let unavailable = rolling.member("maxUnavailable");
    let surge = rolling.member("maxSurge");
    validate_number_or_percent(&unavailable, faults);
    validate_number_or_percent(&surge, faults);
    validate_at_most_all(&unavailable, faults);
    validate_at_most_all(&surge, faults);
    match (is_zero(&unavailable), is_zero(&surge)) {
        (false, false) => {
            faults.push(surge.invalid("may not be set when maxUnavailable is non-zero"));
        }
        (true, true) => faults.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

/// The faults of a change to a DaemonSet.
pub fn validate_daemonset_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    validate_selector_stays(object, stored, &mut faults);
    faults.extend(validate_daemonset(object));
    faults
}

/// The faults of a change to the status of a DaemonSet.
pub fn validate_daemonset_status_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
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
    validate_all_nonnegative(&status, &counts, &mut faults);
    let collisions = status.member("collisionCount");
    faults.extend(decremented(&collisions, &old.member("collisionCount")));
    faults
}
