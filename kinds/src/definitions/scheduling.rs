//! The resources of `scheduling.k8s.io/v1`.

use super::row::Row;
use super::{cluster, generation};
use crate::columns::scheduling as columns;
use crate::validation::scheduling::is_system_class;
use crate::{defaults, validation};
use api::resource::{ResourceDefinition, UpdateCheck};

/// Returns the definition of PriorityClasses. Their generation is always 1 (API-197).
pub fn priorityclasses() -> ResourceDefinition {
    Row {
        short_names: &["pc"],
        generation: generation(&[]),
        update_checks: &[UpdateCheck::Changes],
        columns: columns::priorityclasses(),
        deletion_refusal: Some(|name| {
            let why = "this is a system priority class and cannot be deleted";
            is_system_class(name).then_some(why)
        }),
        defaults: Some(defaults::scheduling::priorityclass),
        complete: Some(defaults::complete::scheduling::priorityclass),
        validate: Some(validation::scheduling::validate_priorityclass),
        validate_update: Some(validation::scheduling::validate_priorityclass_update),
        ..cluster(
            "scheduling.v1.PriorityClass",
            "scheduling.k8s.io",
            "priorityclasses",
        )
    }
    .definition()
}
