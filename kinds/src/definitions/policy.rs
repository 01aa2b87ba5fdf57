//! The resources of `policy/v1`.

use super::row::Row;
use super::{checking, generation, status, typed, with_status};
use crate::columns::policy as columns;
use crate::validation;
use api::resource::{NameRule, ResourceDefinition};

/// Returns the definition of PodDisruptionBudgets. Their metadata has no rules in addition to those
/// of every kind.
pub fn poddisruptionbudgets() -> ResourceDefinition {
    Row {
        short_names: &["pdb"],
        name_rule: NameRule::PathSegment,
        generation: generation(&["spec"]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[],
        subresources: vec![checking(status(&["spec"]), &[])],
        columns: columns::poddisruptionbudgets(),
        validate: Some(validation::policy::validate_poddisruptionbudget),
        validate_update: Some(validation::policy::validate_poddisruptionbudget_update),
        validate_status: Some(validation::policy::validate_poddisruptionbudget_status_update),
        ratchets: validation::ratcheting::SELECTORS,
        ..with_status(typed(
            "policy.v1.PodDisruptionBudget",
            "policy",
            "poddisruptionbudgets",
        ))
    }
    .definition()
}

/// Returns the definition of Evictions of pods, which are not stored.
pub fn evictions() -> ResourceDefinition {
    Row {
        verbs: Vec::new(),
        // Clients from before policy/v1 still send v1beta1.
        accepts: &["v1beta1"],
        ..typed("policy.v1.Eviction", "policy", "evictions")
    }
    .definition()
}
