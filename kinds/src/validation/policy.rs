//! Validation of PodDisruptionBudgets.

use api::field::Field;
use api::object::Object;

use super::conditions::validate_conditions;
use super::numbers::{validate_all_nonnegative, validate_at_most_all, validate_number_or_percent};
use super::selectors::{has_invalid_values, validate_label_selector};
use crate::types::internal::invalid_struct;
use api::error_list::ErrorList;

/// Validates a PodDisruptionBudget.
pub fn validate_poddisruptionbudget(object: &Object, errors: &mut ErrorList) {
    validate(object, false, errors);
}

/// Validates an update of a PodDisruptionBudget. Its selector may keep invalid label values.
pub fn validate_poddisruptionbudget_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let old = Field::of(stored, "spec");
    validate(object, has_invalid_values(&old.member("selector")), errors);
}

fn validate(object: &Object, allows_invalid_values: bool, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let limits = ["minAvailable", "maxUnavailable"];
    if limits.iter().all(|name| spec.member(name).is_set()) {
        errors.push(invalid_struct(
            &spec,
            "policy.v1.PodDisruptionBudgetSpec",
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for name in limits {
        let limit = spec.member(name);
        validate_number_or_percent(&limit, errors);
        validate_at_most_all(&limit, errors);
    }
    validate_label_selector(&spec.member("selector"), allows_invalid_values, errors);
    let policy = spec.member("unhealthyPodEvictionPolicy");
    if policy.is_set() && !matches!(policy.text(), "AlwaysAllow" | "IfHealthyBudget") {
        errors.push(policy.not_supported(&["AlwaysAllow", "IfHealthyBudget"]));
    }
}

/// Validates an update of the status of a PodDisruptionBudget.
pub fn validate_poddisruptionbudget_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    validate_conditions(&status.member("conditions"), errors);
    let counts = [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ];
    validate_all_nonnegative(&status, &counts, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{Functions, check};

    fn functions(path: &str) -> Functions {
        Functions {
            defaults: None,
            create: validate_poddisruptionbudget,
            update: Some(if path.ends_with("/status") {
                validate_poddisruptionbudget_status_update
            } else {
                validate_poddisruptionbudget_update
            }),
        }
    }

    #[test]
    fn budgets_are_answered_as_by_kubernetes() {
        check(include_str!("../../recorded/disruption.json"), functions);
    }
}
