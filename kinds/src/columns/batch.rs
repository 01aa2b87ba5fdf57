//! The columns of `batch/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use api::text::human_duration::human_duration;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    NONE, UNSET, computed, container_images, container_names, containers, images, integer, is_true,
    list, selector, selector_column, since, template_columns, text, text_or, workload_selector,
};

const TEMPLATE: &[&str] = &[
    "spec",
    "jobTemplate",
    "spec",
    "template",
    "spec",
    "containers",
];

/// Returns the columns of CronJobs.
pub fn cronjobs() -> Vec<Column> {
    let zone = computed(|job, _| text_or(job.text(&["spec", "timeZone"]), NONE).into());
    let suspend = computed(|job, _| match job.at(&["spec", "suspend"]) {
        Some(Value::Bool(true)) => "True".into(),
        Some(Value::Bool(false)) => "False".into(),
        _ => UNSET.into(),
    });
    let active = computed(|job, _| list(job, &["status", "active"]).len().into());
    let last = computed(|job, now| match job.text(&["status", "lastScheduleTime"]) {
        "" => NONE.into(),
        time => since(time, now).into(),
    });
    vec![
        Column::name(),
        Column::text(
            "Schedule",
            OfField("batch.v1.CronJobSpec.schedule"),
            text("spec.schedule"),
        ),
        Column::text("Timezone", OfField("batch.v1.CronJobSpec.timeZone"), zone),
        Column::boolean("Suspend", OfField("batch.v1.CronJobSpec.suspend"), suspend),
        Column::integer("Active", OfField("batch.v1.CronJobStatus.active"), active),
        Column::text(
            "Last Schedule",
            OfField("batch.v1.CronJobStatus.lastScheduleTime"),
            last,
        ),
        Column::age(),
        containers(|job, _| container_names(job, TEMPLATE)),
        images(|job, _| container_images(job, TEMPLATE)),
        selector_column(OfField("batch.v1.JobSpec.selector"), |job, _| {
            selector(job, &["spec", "jobTemplate", "spec", "selector"])
        }),
    ]
}

/// Returns the columns of Jobs.
pub fn jobs() -> Vec<Column> {
    let status = computed(|job, _| status(job).into());
    let completions = computed(|job, _| completions(job).into());
    let duration = computed(|job, now| duration(job, now).into());
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        Column::text("Status", "State of the Job.", status),
        Column::text(
            "Completions",
            OfField("batch.v1.JobStatus.succeeded"),
            completions,
        ),
        Column::text(
            "Duration",
            "Time that the Job has been running, or ran.",
            duration,
        ),
        Column::age(),
        containers,
        images,
        workload_selector(OfField("batch.v1.JobSpec.selector")),
    ]
}

fn status(job: &Object) -> &'static str {
    let has = |kind: &&str| is_true(list(job, &["status", "conditions"]), kind);
    if let Some(end) = ["Complete", "Failed"].into_iter().find(has) {
        return end;
    }
    if job.is_being_deleted() {
        return "Terminating";
    }
    let mut others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter();
    others.find(has).unwrap_or("Running")
}

fn completions(job: &Object) -> String {
    let succeeded = integer(job, &["status", "succeeded"]);
    if let Some(completions) = job.at(&["spec", "completions"]) {
        return format!("{succeeded}/{completions}");
    }
    match job.at(&["spec", "parallelism"]).and_then(Value::as_i64) {
        Some(parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn duration(job: &Object, now: Timestamp) -> String {
    let time = |name| job.text(&["status", name]).parse::<Timestamp>().ok();
    let Some(start) = time("startTime") else {
        return String::new();
    };
    let end = time("completionTime").unwrap_or(now);
    human_duration(end.as_second() - start.as_second())
}
