//! `batch/v1`.

use super::{checking, fill_in_whole, generation, names, rules, status, typed, with_status};
use crate::columns::batch as columns;
use api::resource::{
    DefaultPropagation, DeleteStrategy, ResourceDefinition, SelectableField, UnknownLabels,
    UpdateCheck,
};

/// Most who delete a Job want its pods to go too.
const PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
     warning";

/// A workload of the group.
fn workload(object_type: &'static str, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        categories: names(&["all"]),
        generation: generation(&["spec"]),
        ..with_status(typed(object_type, "batch", plural))
    }
}

/// CronJobs.
pub fn cronjobs() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["cj"]),
        update_checks: &[UpdateCheck::Changes],
        subresources: vec![checking(status(&["spec"]), &[])],
        columns: columns::cronjobs(),
        ..workload("batch.v1.CronJob", "cronjobs")
    })
}

/// Jobs.
pub fn jobs() -> ResourceDefinition {
    let mut status = status(&["spec"]);
    status.update.prepare = Some(fill_in_whole);
    rules::applied(ResourceDefinition {
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        propagation: DefaultPropagation::Orphan,
        delete: DeleteStrategy {
            warning_of_default: Some(PODS_STAY),
            ..DeleteStrategy::default()
        },
        selectable_fields: vec![SelectableField::number(
            "status.successful",
            "status.succeeded",
        )],
        unknown_labels: UnknownLabels::OfKind,
        subresources: vec![status],
        columns: columns::jobs(),
        ..workload("batch.v1.Job", "jobs")
    })
}
