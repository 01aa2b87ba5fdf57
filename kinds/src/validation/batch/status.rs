//! Validation of the status of Jobs.

use api::field::Field;
use api::object::Object;
use jiff::Timestamp;

use super::indexes::{count_indexes, overlap};
use super::invalid_whole;
use crate::types::internal::invalid_struct;
use crate::validation::immutable::is_same;
use crate::validation::numbers::{number, validate_all_nonnegative};
use api::error_list::ErrorList;

/// Reports whether a status has this condition with status True.
pub(super) fn has_condition(status: &Field<'_>, name: &str) -> bool {
    status.member("conditions").items().any(|condition| {
        condition.member("type").text() == name && condition.member("status").text() == "True"
    })
}

/// The conditions with which a Job has ended or is about to end.
#[derive(Clone, Copy)]
struct Ends {
    is_complete: bool,
    is_failed: bool,
    is_failing: bool,
    is_success: bool,
}

impl Ends {
    fn of(status: &Field<'_>) -> Ends {
        Ends {
            is_complete: has_condition(status, "Complete"),
            is_failed: has_condition(status, "Failed"),
            is_failing: has_condition(status, "FailureTarget"),
            is_success: has_condition(status, "SuccessCriteriaMet"),
        }
    }

    fn is_finished(self) -> bool {
        self.is_complete || self.is_failed
    }
}

/// An update of the status of a Job. Unchanged parts are not validated.
struct Change<'c> {
    spec: Field<'c>,
    status: Field<'c>,
    old: Field<'c>,
    ends: Ends,
    old_ends: Ends,
}

/// Validates an update of the status of a Job.
pub fn validate_job_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (status, old) = (Field::of(object, "status"), Field::of(stored, "status"));
    let change = Change {
        spec: Field::of(object, "spec"),
        status,
        old,
        ends: Ends::of(&status),
        old_ends: Ends::of(&old),
    };
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    validate_all_nonnegative(&status, &counts, errors);
    validate_uncounted(&status.member("uncountedTerminatedPods"), errors);
    change.validate_ends(errors);
    change.validate_finished(errors);
    change.validate_indexes(errors);
    change.validate_counts(errors);
    change.validate_success(errors);
    change.validate_transition(errors);
}

/// Validates that the uids of pods are unique.
fn validate_uncounted(uncounted: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = std::collections::BTreeSet::new();
    for name in ["succeeded", "failed"] {
        for uid in uncounted.member(name).items() {
            if uid.text().is_empty() {
                errors.push(uid.invalid("must not be empty"));
            } else if !seen.insert(uid.text().to_owned()) {
                errors.push(uid.duplicate());
            }
        }
    }
}

fn time(field: &Field<'_>) -> Option<Timestamp> {
    field.text().parse().ok()
}

impl Change<'_> {
    /// Reports whether a field of the status changes.
    fn is_changed(&self, name: &str) -> bool {
        !is_same(
            self.status.member(name).value(),
            self.old.member(name).value(),
        )
    }

    /// Reports whether the Job resumes, which resets its start time.
    fn is_resumed(&self) -> bool {
        let conditions = self.status.member("conditions");
        let is_running = conditions.items().any(|condition| {
            condition.member("type").text() == "Suspended"
                && condition.member("status").text() == "False"
        });
        has_condition(&self.old, "Suspended") && is_running
    }

    fn refuse_conditions(&self, message: &str, errors: &mut ErrorList) {
        errors.push(invalid_whole(&self.status.member("conditions"), message));
    }

    /// Validates the conditions with which a Job ends, and its completion time.
    fn validate_ends(&self, errors: &mut ErrorList) {
        let (ends, old) = (self.ends, self.old_ends);
        let completes = ends.is_complete != old.is_complete;
        let fails = ends.is_failed != old.is_failed;
        let starts_failing = ends.is_failing != old.is_failing;
        let succeeds = ends.is_success != old.is_success;
        let start = self.status.member("startTime");
        let completion = self.status.member("completionTime");
        let is_time_new = self.is_changed("completionTime");
        if (completes || fails) && ends.is_complete && ends.is_failed {
            let message = "cannot set Complete=True and Failed=true conditions";
            self.refuse_conditions(message, errors);
        }
        if (completes || starts_failing) && ends.is_complete && ends.is_failing {
            let message = "cannot set Complete=True and FailureTarget=true conditions";
            self.refuse_conditions(message, errors);
        }
        if (completes || is_time_new) && completion.is_set() && !ends.is_complete {
            errors.push(
                completion
                    .invalid("cannot set completionTime when there is no Complete=True condition"),
            );
        }
        if (completes || is_time_new) && !completion.is_set() && ends.is_complete {
            errors.push(completion.required("completionTime is required for Complete jobs"));
        }
        let is_before = || match (time(&start), time(&completion)) {
            (Some(start), Some(completion)) => completion < start,
            _ => false,
        };
        if (is_time_new || self.is_changed("startTime")) && is_before() {
            errors.push(completion.invalid("must be equal to or after `startTime`"));
        }
        let is_checked = fails || self.is_changed("failedIndexes");
        if is_checked && ends.is_failed && !ends.is_failing {
            let message =
                "cannot set Failed=True condition without the FailureTarget=true condition";
            self.refuse_conditions(message, errors);
        }
        if (completes || succeeds) && ends.is_complete && !ends.is_success {
            let message =
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            self.refuse_conditions(message, errors);
        }
    }

    /// Validates that a finished Job has no active pods and has a start time.
    fn validate_finished(&self, errors: &mut ErrorList) {
        let finishes = self.ends.is_finished() != self.old_ends.is_finished();
        if !self.ends.is_finished() {
            return;
        }
        let active = self.status.member("active");
        if (finishes || self.is_changed("active")) && number(&active) > 0 {
            errors.push(active.invalid("active>0 is invalid for finished job"));
        }
        let start = self.status.member("startTime");
        let never_ran = self.spec.member("suspend").is_true()
            && self.spec.member("completions").int() == Some(0);
        if (finishes || self.is_changed("startTime")) && !never_ran && !start.is_set() {
            errors.push(start.required("startTime is required for finished job"));
        }
        let uncounted = self.status.member("uncountedTerminatedPods");
        let has_uncounted =
            !uncounted.member("failed").is_empty() || !uncounted.member("succeeded").is_empty();
        if (finishes || self.is_changed("uncountedTerminatedPods")) && has_uncounted {
            errors.push(invalid_struct(
                &uncounted,
                "batch.v1.UncountedTerminatedPods",
                "must be empty for finished job",
            ));
        }
    }

    /// Validates the completed and the failed indexes.
    fn validate_indexes(&self, errors: &mut ErrorList) {
        let completed = self.status.member("completedIndexes");
        let failed = self.status.member("failedIndexes");
        let completions = self.spec.member("completions").int();
        let is_completed_new = self.is_changed("completedIndexes");
        let is_failed_new = self.is_changed("failedIndexes");
        let is_per_index = self.spec.member("backoffLimitPerIndex").is_set();
        for (field, is_checked) in [
            (&completed, is_completed_new),
            (&failed, is_failed_new && is_per_index),
        ] {
            let Some(completions) = completions.filter(|_| is_checked) else {
                continue;
            };
            if let Err(error) = count_indexes(field.text(), completions) {
                let path = field.path();
                let name = path.rsplit('.').next().unwrap_or_default();
                errors.push(field.invalid(format!("error parsing {name}: {error}")));
            }
        }
        let is_indexed = self.spec.member("completionMode").text() == "Indexed";
        if is_completed_new && !completed.text().is_empty() && !is_indexed {
            errors.push(
                completed.invalid(
                    "cannot set non-empty completedIndexes when non-indexed completion mode",
                ),
            );
        }
        if is_failed_new && !is_per_index && failed.is_set() {
            errors
                .push(failed.invalid(
                    "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
                ));
        }
        if let Some(completions) = completions
            && (is_failed_new || is_completed_new)
            && failed.is_set()
            && let Some(index) = overlap(completed.text(), failed.text(), completions)
        {
            errors.push(failed.invalid(format!(
                "failedIndexes and completedIndexes overlap at index: {index}"
            )));
        }
    }

    fn validate_counts(&self, errors: &mut ErrorList) {
        let finishes = self.ends.is_finished() != self.old_ends.is_finished();
        let terminating = self.status.member("terminating");
        let is_checked = finishes || self.is_changed("terminating");
        if is_checked && number(&terminating) > 0 && self.ends.is_finished() {
            errors.push(terminating.invalid("terminating>0 is invalid for finished job"));
        }
        let ready = self.status.member("ready");
        let is_checked = self.is_changed("ready") || self.is_changed("active");
        let active = number(&self.status.member("active"));
        if is_checked && ready.int().is_some_and(|ready| ready > active) {
            errors.push(ready.invalid("cannot set more ready pods than active"));
        }
    }

    fn validate_success(&self, errors: &mut ErrorList) {
        let ends = self.ends;
        if ends.is_success && ends.is_failed {
            let message = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
            self.refuse_conditions(message, errors);
        }
        if ends.is_success && ends.is_failing {
            let message = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
            self.refuse_conditions(message, errors);
        }
        let has_policy = self.spec.member("successPolicy").is_set();
        if has_policy && !ends.is_success && ends.is_complete {
            let message = "cannot set Complete=True for Job with SuccessPolicy unless \
                           SuccessCriteriaMet=True";
            self.refuse_conditions(message, errors);
        }
    }

    /// Validates that terminal conditions are not removed.
    fn validate_transition(&self, errors: &mut ErrorList) {
        let (ends, old) = (self.ends, self.old_ends);
        for (name, was, is) in [
            ("Failed", old.is_failed, ends.is_failed),
            ("Complete", old.is_complete, ends.is_complete),
            ("FailureTarget", old.is_failing, ends.is_failing),
        ] {
            if was && !is {
                let message = format!("cannot disable the terminal {name}=True condition");
                self.refuse_conditions(&message, errors);
            }
        }
        let can_shrink = self.spec.member("completionMode").text() == "Indexed"
            && self.spec.member("completions").int() == self.spec.member("parallelism").int();
        for (name, can_shrink) in [("failed", false), ("succeeded", can_shrink)] {
            let counted = self.status.member(name);
            if !can_shrink && number(&counted) < number(&self.old.member(name)) {
                let message = format!("cannot decrease the {name} counter");
                errors.push(counted.invalid_value(number(&counted), message));
            }
        }
        let completion = self.status.member("completionTime");
        let had_completion = self.old.member("completionTime").is_set();
        if completion.is_set() && had_completion && self.is_changed("completionTime") {
            errors.push(completion.invalid("field is immutable"));
        }
        let start = self.status.member("startTime");
        let was_started = self.old.member("startTime").is_set();
        let is_suspended = self.spec.member("suspend").is_true();
        if was_started && !is_suspended && !self.is_resumed() && self.is_changed("startTime") {
            let message = "field is immutable for unsuspended job once set";
            errors.push(start.invalid(message));
        }
        if old.is_success && !ends.is_success {
            let message = "cannot disable the SuccessCriteriaMet=True condition";
            self.refuse_conditions(message, errors);
        }
        if old.is_complete && !old.is_success && ends.is_success {
            let message =
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.refuse_conditions(message, errors);
        }
    }
}
