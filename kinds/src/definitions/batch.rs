//! The resources of `batch/v1`.

use super::row::Row;
use super::{checking, fill_in_whole, generation, status, typed, with_status};
use crate::columns::batch as columns;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{
    DefaultPropagation, ResourceDefinition, SelectableField, UnknownLabels, UpdateCheck,
};

/// The warning for a deletion of a Job without a propagation policy: most clients want its pods
/// deleted too, but the default is Orphan.
const PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
     warning";

/// Returns the row of a workload.
fn workload(object_type: &'static str, plural: &'static str) -> Row {
    Row {
        categories: &["all"],
        generation: generation(&["spec"]),
        ..with_status(typed(object_type, "batch", plural))
    }
}

/// Returns the definition of CronJobs.
pub fn cronjobs() -> ResourceDefinition {
    Row {
        short_names: &["cj"],
        update_checks: &[UpdateCheck::Changes],
        subresources: vec![checking(status(&["spec"]), &[])],
        columns: columns::cronjobs(),
        defaults: Some(defaults::batch::cronjob),
        complete: Some(defaults::complete::batch::cronjob),
        disabled: Some(strategies::disabled_fields::drop_of_cronjob),
        validate: Some(validation::batch::validate_cronjob),
        validate_update: Some(validation::batch::validate_cronjob_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::batch::of_cronjob),
        ..workload("batch.v1.CronJob", "cronjobs")
    }
    .definition()
}

/// Returns the definition of Jobs.
pub fn jobs() -> ResourceDefinition {
    let mut status = status(&["spec"]);
    status.prepare = Some(fill_in_whole);
    Row {
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        propagation: DefaultPropagation::Orphan,
        propagation_warning: Some(PODS_STAY),
        selectable_fields: vec![SelectableField::number(
            "status.successful",
            "status.succeeded",
        )],
        unknown_labels: UnknownLabels::OfKind,
        subresources: vec![status],
        columns: columns::jobs(),
        defaults: Some(defaults::batch::job),
        stored: Some(defaults::batch::stored_job),
        complete: Some(defaults::complete::batch::job),
        disabled: Some(strategies::disabled_fields::drop_of_template),
        validate: Some(validation::batch::validate_job),
        validate_update: Some(validation::batch::validate_job_update),
        validate_status: Some(validation::batch::validate_job_status_update),
        fill_in_owned: Some(defaults::batch::label_as_template),
        prepare: Some(strategies::batch::prepare_job_create),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::batch::of_job),
        ..workload("batch.v1.Job", "jobs")
    }
    .definition()
}
