//! `scheduling.k8s.io/v1`.

use super::{cluster, generation, names, rules};
use crate::columns::scheduling as columns;
use crate::validation::scheduling::is_system_class;
use api::resource::{DeleteStrategy, ResourceDefinition, UpdateCheck};

/// PriorityClasses. Their generation is always 1 (API-197).
pub fn priorityclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["pc"]),
        generation: generation(&[]),
        update_checks: &[UpdateCheck::Changes],
        columns: columns::priorityclasses(),
        delete: DeleteStrategy {
            refusal: Some(|name| {
                let why = "this is a system priority class and cannot be deleted";
                is_system_class(name).then_some(why)
            }),
            ..DeleteStrategy::default()
        },
        ..cluster(
            "scheduling.v1.PriorityClass",
            "scheduling.k8s.io",
            "priorityclasses",
        )
    })
}
