//! What is filled in of Jobs and CronJobs (http.md 7).

use api::names;
use api::object::Object;
use serde_json::{Value, json};

use super::workloads::{is_without, template, template_labels};
use super::{Members, items, member, member_or_new, set_absent, set_default};

/// The labels that a Job's pods get, with and without the prefix that they lacked at first.
const CONTROLLER_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Fills in a Job (API-251).
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
    // A new Job gets labels with its selector, unless its name is yet to be made.
    let is_manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    let has_selector = is_manual || spec.contains_key("selector");
    if (has_selector || object.name().is_empty()) && !is_told_of_labels(object) {
        label_as_template(object);
    }
}

/// Whether the labels that were made of a Job's name are none. That is told at the template alone,
/// where they were put.
fn is_told_of_labels(object: &Object) -> bool {
    let spec = object.0.get("spec").and_then(Value::as_object);
    let labels = spec.and_then(template_labels);
    let is_made = |label: &&str| {
        let value = labels.and_then(|labels| labels.get(*label));
        value.and_then(Value::as_str) == Some(object.name())
    };
    JOB_NAME.iter().any(is_made) && !names::label_value(object.name()).is_empty()
}

/// A Job without labels has those of its pods.
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

/// Fills in a CronJob (API-251). Of its Jobs only their templates are filled in.
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

/// Makes the selector of a new Job, and the labels of its pods, of its uid and name (API-231).
/// A Job without labels has those too, if its template had some of its own: in kube-apiserver both
/// are the same map then, unless the object was copied because its name is generated. Jobs with a
/// manual selector keep theirs.
pub fn prepare_job_create(object: &mut Object) {
    if object.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (
        object.meta("uid").to_owned(),
        object.meta("name").to_owned(),
    );
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let had_labels = template_labels(spec).is_some();
    let metadata = member_or_new(spec, "template").and_then(|t| member_or_new(t, "metadata"));
    if let Some(labels) = metadata.and_then(|metadata| member_or_new(metadata, "labels")) {
        for (keys, value) in [(CONTROLLER_UID, &uid), (JOB_NAME, &name)] {
            for key in keys {
                labels.entry(key).or_insert_with(|| json!(value));
            }
        }
    }
    if let Some(selector) = member_or_new(spec, "selector")
        && let Some(labels) = member_or_new(selector, "matchLabels")
    {
        let [key, _] = CONTROLLER_UID;
        labels.entry(key).or_insert_with(|| json!(uid));
    }
    if had_labels {
        label_as_template(object);
    }
}
