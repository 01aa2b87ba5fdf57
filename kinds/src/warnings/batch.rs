//! Warnings about Jobs and CronJobs.

use api::field::Field;
use api::object::Object;

use super::pods::warn_of_template;
use super::workloads::warn_of_name;
use super::{Warnings, is_new_generation, warn};

/// The completions and the parallelism of an indexed Job above which its status may not be tracked.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;

/// Returns the warnings about a Job.
pub fn of_job(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        warn_of_job(&Field::of(object, "spec"), &warnings);
    }
    warnings.take()
}

/// Returns the warnings about a CronJob.
pub fn of_cronjob(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    let spec = Field::of(object, "spec");
    if is_new_generation(object, stored) {
        warn_of_job(&spec.member("jobTemplate").member("spec"), &warnings);
    }
    // Validation refuses it in new objects.
    if stored.is_some() && spec.member("schedule").text().contains("TZ") {
        warnings.add(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
        );
    }
    warnings.take()
}

fn warn_of_job(spec: &Field<'_>, warnings: &Warnings) {
    let above = |name: &str, limit: i64| spec.member(name).int().is_some_and(|n| n > limit);
    let is_large = above("completions", MANY_COMPLETIONS) && above("parallelism", MANY_AT_ONCE);
    if is_large && spec.member("completionMode").text() == "Indexed" {
        let text = "In Indexed Jobs with a number of completions higher than 10^5 and a \
                    parallelism higher than 10^4, Kubernetes might not be able to track \
                    completedIndexes when a big number of indexes fail";
        warn(spec, text, warnings);
    }
    warn_of_template(&spec.member("template"), warnings);
}
