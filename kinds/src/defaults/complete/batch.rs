//! Descriptions of defaulted Jobs and CronJobs.

use api::completeness::Expected;

use super::workloads::{labelled, of_workload, template};

/// Describes a defaulted Job. A scan cannot see whether absent labels default to those of the
/// template, so it requires labels.
pub fn job() -> Expected {
    let spec = template(failure_policy(Expected::default()))
        .has(&["backoffLimit", "completionMode", "manualSelector"])
        .has(&["parallelism", "podReplacementPolicy", "suspend"]);
    labelled(of_workload(spec))
}

/// Describes a defaulted CronJob.
pub fn cronjob() -> Expected {
    let job = template(failure_policy(Expected::default()));
    let spec = Expected::default()
        .has(&["concurrencyPolicy", "suspend", "jobTemplate"])
        .has(&["failedJobsHistoryLimit", "successfulJobsHistoryLimit"])
        .below("jobTemplate", of_workload(job));
    of_workload(spec)
}

fn failure_policy(part: Expected) -> Expected {
    let pattern = Expected::default().has(&["status"]);
    let rule = Expected::default().below("onPodConditions", pattern);
    part.below("podFailurePolicy", Expected::default().below("rules", rule))
}
