//! Defaults of Jobs and CronJobs (http.md 7).

use api::names;
use api::object::Object;
use jiff::Timestamp;
use serde_json::Value;

use super::workloads::{is_without, template, template_labels};
use super::{Members, items, member, member_or_new, set_absent, set_default};

/// The labels that pods of a Job get: with the prefix, and in their older form without it.
pub(crate) const CONTROLLER_UID: [&str; 2] =
    ["batch.kubernetes.io/controller-uid", "controller-uid"];
pub(crate) const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Sets the defaults of a Job (API-251).
pub fn job(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    template(spec);
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    set_default(spec, "parallelism", 1);
    let backoff_limit = if spec.contains_key("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    set_default(spec, "backoffLimit", backoff_limit);
    set_absent(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    set_default(spec, "manualSelector", false);
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set_absent(spec, "podReplacementPolicy", replacement);
    pod_failure_policy(spec);
    // A new Job without a manual selector gets its labels when its selector is made, unless its
    // name is yet to be generated (API-231).
    let is_manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    let has_selector = is_manual || spec.contains_key("selector");
    if (has_selector || object.name().is_empty()) && !has_job_name_label(object) {
        label_as_template(object);
    }
}

/// Sets the defaults of a Job read from storage, and copies the labels of the template to a Job
/// without labels (KV-30).
pub fn stored_job(object: &mut Object, _: Timestamp) {
    job(object);
    label_as_template(object);
}

/// Reports whether the labels made from the Job's name have been added. They are on the template,
/// whatever labels the Job itself has.
fn has_job_name_label(object: &Object) -> bool {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let labels = spec.and_then(template_labels);
    let is_made = |label: &&str| {
        let value = labels.and_then(|labels| labels.get(*label));
        value.and_then(Value::as_str) == Some(object.name())
    };
    JOB_NAME.iter().any(is_made) && !names::label_value(object.name()).is_empty()
}

/// Copies the labels of the template to a Job without labels.
pub fn label_as_template(object: &mut Object) {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let labels = spec.and_then(template_labels).cloned();
    if let Some(labels) = labels
        && is_without(object.metadata_mut(), "labels")
    {
        object.metadata_mut().insert("labels".to_owned(), labels);
    }
}

fn pod_failure_policy(spec: &mut Members) {
    let Some(policy) = member(spec, "podFailurePolicy") else {
        return;
    };
    for rule in items(policy, "rules") {
        for pattern in items(rule, "onPodConditions") {
            set_default(pattern, "status", "True");
        }
    }
}

/// Sets the defaults of a CronJob (API-251). In its Job template, only the pod template gets
/// defaults.
pub fn cronjob(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    if let Some(job_template) = member_or_new(spec, "jobTemplate")
        && let Some(job) = member_or_new(job_template, "spec")
    {
        template(job);
        pod_failure_policy(job);
    }
    set_default(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
}
