//! Validation of Jobs and CronJobs.

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

use api::field::{Field, LazyError};

/// Returns an error that shows the detail instead of the value.
fn invalid_whole<'f>(field: &Field<'f>, detail: &'f str) -> LazyError<'f> {
    field.invalid("").showing_json(move || detail.to_owned())
}
