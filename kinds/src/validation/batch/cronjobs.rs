//! Validation of CronJobs.

use api::field::Field;
use api::field_error::FieldError;
use api::object::Object;

use super::jobs::validate_job_spec;
use super::schedules;
use super::time_zones;
use crate::validation::immutable::is_same;
use crate::validation::numbers::validate_nonnegative;
use crate::validation::selectors::invalid_selector;
use api::error_list::ErrorList;

/// The names of its Jobs are the CronJob's name and up to 11 more characters.
const MAX_NAME: usize = 63 - 11;

/// The longest part of a time zone's name.
const MAX_ZONE_PART: usize = 14;

/// Validates a CronJob.
pub fn validate_cronjob(object: &Object, errors: &mut ErrorList) {
    validate_spec(object, None, errors);
    let name = object.meta("name");
    if name.len() > MAX_NAME {
        let message = format!("must be no more than {MAX_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", name, message));
    }
}

/// Validates an update of a CronJob. Its stored name, time zone, and a time zone in its schedule
/// are not refused again.
pub fn validate_cronjob_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_spec(object, Some(stored), errors);
}

fn validate_spec(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let schedule = spec.member("schedule");
    let zone = spec.member("timeZone");
    if schedule.text().is_empty() {
        errors.push(schedule.required(""));
    } else {
        let had_zone =
            stored.is_some_and(|stored| stored.text(&["spec", "schedule"]).contains("TZ"));
        validate_schedule(&schedule, &zone, had_zone, errors);
    }
    validate_nonnegative(&spec.member("startingDeadlineSeconds"), errors);
    let is_kept =
        stored.is_some_and(|stored| is_same(zone.value(), stored.at(&["spec", "timeZone"])));
    if zone.is_set() && !is_kept {
        validate_time_zone(&zone, errors);
    }
    let policy = spec.member("concurrencyPolicy");
    match policy.text() {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(policy.required("")),
        _ => errors.push(policy.not_supported(&["Allow", "Forbid", "Replace"])),
    }
    let template = spec.member("jobTemplate");
    let job = template.member("spec");
    validate_job_spec(&job, errors);
    let selector = job.member("selector");
    if selector.is_set() {
        errors.push(invalid_selector(
            &selector,
            "`selector` will be auto-generated",
        ));
    }
    let manual = job.member("manualSelector");
    if manual.is_true() {
        errors.push(manual.not_supported(&["nil", "false"]));
    }
    validate_nonnegative(&spec.member("successfulJobsHistoryLimit"), errors);
    validate_nonnegative(&spec.member("failedJobsHistoryLimit"), errors);
}

fn validate_schedule(
    schedule: &Field<'_>,
    zone: &Field<'_>,
    had_zone: bool,
    errors: &mut ErrorList,
) {
    if let Err(error) = schedules::parse(schedule.text()) {
        errors.push(schedule.invalid(error));
    }
    if !schedule.text().contains("TZ") {
        return;
    }
    if !had_zone {
        errors.push(
            schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        );
    } else if zone.is_set() {
        errors
            .push(schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

fn validate_time_zone(zone: &Field<'_>, errors: &mut ErrorList) {
    let name = zone.text();
    if name.is_empty() {
        errors.push(zone.invalid("timeZone must be nil or non-empty string"));
        return;
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let is_part = |part: &str| {
        (1..=MAX_ZONE_PART).contains(&part.len())
            && part.chars().all(is_allowed)
            && !part.starts_with('-')
            && !matches!(part, "." | "..")
    };
    if !name.split('/').all(is_part) {
        errors.push(zone.invalid(format!("unknown time zone {name}")));
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        errors.push(zone.invalid(
            "timeZone must be an explicit time zone as defined in \
             https://www.iana.org/time-zones",
        ));
    }
    if let Err(error) = time_zones::load(name) {
        errors.push(zone.invalid(error));
    }
}
