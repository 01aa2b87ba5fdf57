//! What is refused of Jobs and CronJobs.

mod cronjobs;
mod failure_policy;
mod indexes;
mod jobs;
mod schedules;
mod status;
mod success_policy;
mod template_update;
#[cfg(test)]
mod tests;
mod time_zones;

pub use cronjobs::{validate_cronjob, validate_cronjob_update};
pub use jobs::{validate_job, validate_job_update};
pub use status::validate_job_status_update;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};

/// The fault of a list with too many items.
pub(crate) fn too_many(field: &Field<'_>, limit: usize) -> FieldError {
    let detail = format!("must have at most {limit} items");
    FieldError::new(
        FieldErrorKind::TooMany,
        field.path(),
        &field.len().into(),
        detail,
    )
}

/// The fault of a value that is not shown.
fn invalid_whole(field: &Field<'_>, detail: &str) -> FieldError {
    FieldError::invalid_document(field.path(), detail, "")
}
