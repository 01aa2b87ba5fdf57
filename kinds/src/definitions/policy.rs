//! `policy/v1`.

use super::{checking, generation, names, rules, status, typed, with_status};
use crate::columns::policy as columns;
use api::resource::{NameRule, ResourceDefinition};

/// PodDisruptionBudgets. Their metadata has no rules but those of every kind.
pub fn poddisruptionbudgets() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["pdb"]),
        name_rule: NameRule::PathSegment,
        generation: generation(&["spec"]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[],
        subresources: vec![checking(status(&["spec"]), &[])],
        columns: columns::poddisruptionbudgets(),
        ..with_status(typed(
            "policy.v1.PodDisruptionBudget",
            "policy",
            "poddisruptionbudgets",
        ))
    })
}

/// Evictions of pods. They are not stored.
pub fn evictions() -> ResourceDefinition {
    ResourceDefinition {
        verbs: Vec::new(),
        // Clients that are older than the first version still evict.
        accepts: &["v1beta1"],
        ..typed("policy.v1.Eviction", "policy", "evictions")
    }
}
