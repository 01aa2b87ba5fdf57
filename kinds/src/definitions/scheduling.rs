//! `scheduling.k8s.io/v1`.

use super::{cluster, generation, names, rules};
use crate::columns::scheduling as columns;
use api::resource::{ResourceDefinition, UpdateCheck};

/// PriorityClasses. Their generation is always 1 (API-197).
pub fn priorityclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["pc"]),
        generation: generation(&[]),
        update_checks: &[UpdateCheck::Changes],
        columns: columns::priorityclasses(),
        ..cluster(
            "scheduling.v1.PriorityClass",
            "scheduling.k8s.io",
            "priorityclasses",
        )
    })
}
