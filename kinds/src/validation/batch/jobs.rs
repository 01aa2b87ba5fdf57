//! Validation of Jobs.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::failure_policy::validate_failure_policy;
use super::success_policy::validate_success_policy;
use super::template_update::validate_template_update;
use crate::types::internal::invalid_struct;
use crate::validation::immutable::{IMMUTABLE, is_same, validate_immutable};
use crate::validation::numbers::{number, validate_all_nonnegative};
use crate::validation::pods::validate_pod_template_spec;
use crate::validation::selectors::{
    has_invalid_values, invalid_selector, is_evaluable, selects, validate_label_selector,
};
use crate::validation::workloads::NOT_SELECTED;
use api::error_list::ErrorList;

/// The limits of indexed Jobs.
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// The number of completions above which the other limits are lower.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;

const MAX_MANAGED_BY: usize = 63;

/// The labels that pods of a Job get: with the prefix, and in their older form without it.
pub(super) const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const LEGACY_CONTROLLER_UID: &str = "controller-uid";
const LEGACY_JOB_NAME: &str = "job-name";

/// Validates a Job. Its uid is set, and selector and labels have been made from it
/// ([`crate::strategies::batch::prepare_job_create`]).
pub fn validate_job(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_generated_selector(object, &spec, stored, errors);
    validate_whole_spec(&spec, stored, errors);
    let completions = spec.member("completions");
    let is_indexed = spec.member("completionMode").text() == "Indexed";
    if let Some(count) = completions.int().filter(|count| is_indexed && *count > 0) {
        let name = object.meta("name");
        let host = format!("{name}-{}", count - 1);
        for _ in names::dns_label(&host).iter().take(1) {
            let message = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(FieldError::invalid("metadata.name", name, message));
        }
    }
}

/// Validates that a generated selector and the labels of the pods match the Job's uid.
fn validate_generated_selector(
    object: &Object,
    spec: &Field<'_>,
    stored: Option<&Object>,
    errors: &mut ErrorList,
) {
    let selector = spec.member("selector");
    if spec.member("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let (uid, name) = (object.meta("uid"), object.meta("name"));
    if uid.is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    let template = spec.member("template");
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    let mut expected = vec![(LEGACY_CONTROLLER_UID, uid), (LEGACY_JOB_NAME, name)];
    if needs_prefixed_labels(stored) {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    for (key, value) in &expected {
        validate_has_label(&labels, key, value, errors);
    }
    let expected = expected.into_iter();
    let expected = expected
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let expected = serde_json::Value::Object(expected);
    let is_generated = selects(&selector, &Field::named("", Some(&expected)));
    if is_evaluable(&selector) && !is_generated {
        errors.push(invalid_selector(&selector, "`selector` not auto-generated"));
    }
}

/// Reports whether a Job needs labels with the prefix. Jobs from before the prefix do not.
fn needs_prefixed_labels(stored: Option<&Object>) -> bool {
    stored.is_none_or(|stored| {
        let path = ["spec", "template", "metadata", "labels"];
        let labels = stored.at(&path);
        let has = |key| labels.is_some_and(|labels| labels.get(key).is_some());
        has(CONTROLLER_UID) && has(JOB_NAME)
    })
}

fn validate_has_label(labels: &Field<'_>, key: &str, value: &str, errors: &mut ErrorList) {
    let label = labels.key(key);
    let message = format!("must be '{value}'");
    if !label.is_set() {
        errors.push(label.required(message));
    } else if label.text() != value {
        let shown = labels.value().cloned().unwrap_or_default();
        errors.push(label.invalid_value(shown, message));
    }
}

/// Validates the spec of a Job, including its selector.
fn validate_whole_spec(spec: &Field<'_>, stored: Option<&Object>, errors: &mut ErrorList) {
    validate_job_spec(spec, errors);
    let selector = spec.member("selector");
    if selector.is_set() {
        let had_invalid_values = stored.is_some_and(|stored| {
            let old = Field::of(stored, "spec");
            has_invalid_values(&old.member("selector"))
        });
        validate_label_selector(&selector, had_invalid_values, errors);
    } else {
        errors.push(selector.required(""));
    }
    let template = spec.member("template");
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if is_evaluable(&selector) && !selects(&selector, &labels) {
        errors.push(labels.invalid(NOT_SELECTED));
    }
}

/// Validates the spec of a Job, except its selector.
pub(super) fn validate_job_spec(spec: &Field<'_>, errors: &mut ErrorList) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    validate_all_nonnegative(spec, &counts, errors);
    let per_index = spec.member("backoffLimitPerIndex");
    let max_failed = spec.member("maxFailedIndexes");
    if max_failed.is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    validate_managed_by(&spec.member("managedBy"), errors);
    let mode = spec.member("completionMode");
    match mode.value().and_then(|mode| mode.as_str()) {
        Some("Indexed") => validate_indexed(spec, errors),
        None | Some("NonIndexed") => {
            for field in [&per_index, &max_failed] {
                if field.is_set() {
                    errors.push(field.invalid("requires indexed completion mode"));
                }
            }
        }
        Some(_) => errors.push(mode.not_supported(&["NonIndexed", "Indexed"])),
    }
    let failure = spec.member("podFailurePolicy");
    if failure.is_set() {
        validate_failure_policy(spec, &failure, errors);
    }
    let success = spec.member("successPolicy");
    if success.is_set() {
        if mode.text() == "Indexed" {
            let completions = number(&spec.member("completions"));
            validate_success_policy(&success, completions, errors);
        } else {
            errors.push(invalid_struct(
                &success,
                "batch.v1.SuccessPolicy",
                "requires indexed completion mode",
            ));
        }
    }
    validate_replacement_policy(&spec.member("podReplacementPolicy"), &failure, errors);
    let template = spec.member("template");
    validate_pod_template_spec(&template, errors);
    let pod = template.member("spec");
    validate_restart_policy(&pod.member("restartPolicy"), &failure, errors);
}

fn validate_managed_by(field: &Field<'_>, errors: &mut ErrorList) {
    let Some(text) = field.value().and_then(|value| value.as_str()) else {
        return;
    };
    validate_domain_prefixed_path(text, field, errors);
    if text.len() > MAX_MANAGED_BY {
        errors.push(field.too_long(MAX_MANAGED_BY));
    }
}

/// Validates a domain, a slash and a path: `acme.io/foo`.
fn validate_domain_prefixed_path(text: &str, field: &Field<'_>, errors: &mut ErrorList) {
    if text.is_empty() {
        errors.push(field.required(""));
        return;
    }
    match text.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            let wrong = names::dns_subdomain(host).into_iter();
            errors.extend(wrong.map(|message| field.invalid_value(host, message)));
            let is_path =
                |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(is_path) {
                errors.push(field.invalid_value(
                    path,
                    "Invalid path (regex used for validation is \
                     '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                ));
            }
        }
        _ => errors.push(field.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
}

/// Validates the limits of an indexed Job.
fn validate_indexed(spec: &Field<'_>, errors: &mut ErrorList) {
    let completions = spec.member("completions");
    let parallelism = spec.member("parallelism");
    let max_failed = spec.member("maxFailedIndexes");
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let is_above = |field: &Field<'_>, limit: i64| number(field) > limit;
    if is_above(&parallelism, MAX_PARALLELISM) {
        errors.push(parallelism.invalid(format!(
            "must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed"
        )));
    }
    if completions
        .int()
        .is_some_and(|count| is_above(&max_failed, count))
        && max_failed.is_set()
    {
        errors.push(max_failed.invalid("must be less than or equal to completions"));
    }
    if is_above(&max_failed, MAX_FAILED_INDEXES) {
        let message = format!("must be less than or equal to {MAX_FAILED_INDEXES}");
        errors.push(max_failed.invalid(message));
    }
    let is_per_index = spec.member("backoffLimitPerIndex").is_set();
    if !is_per_index || !is_above(&completions, MANY_COMPLETIONS) {
        return;
    }
    if !max_failed.is_set() {
        errors.push(max_failed.required(format!(
            "must be specified when completions is above {MANY_COMPLETIONS}"
        )));
    }
    for field in [parallelism, max_failed] {
        if is_above(&field, MAX_WITH_MANY_COMPLETIONS) {
            errors.push(field.invalid(format!(
                "must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are \
                 above {MANY_COMPLETIONS} and used with backoff limit per index"
            )));
        }
    }
}

fn validate_replacement_policy(policy: &Field<'_>, failure: &Field<'_>, errors: &mut ErrorList) {
    let supported: &[&str] = if failure.is_set() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if policy.is_set() && !supported.contains(&policy.text()) {
        errors.push(policy.not_supported(supported));
    }
}

/// Validates that pods of a Job are not restarted for ever. The default policy of pods, Always, is
/// invalid here.
fn validate_restart_policy(policy: &Field<'_>, failure: &Field<'_>, errors: &mut ErrorList) {
    match policy.text() {
        "Never" => {}
        "OnFailure" if failure.is_set() => errors
            .push(policy.invalid("only \"Never\" is supported when podFailurePolicy is specified")),
        "OnFailure" => {}
        "Always" | "" => {
            errors.push(policy.required("valid values: \"OnFailure\", \"Never\""));
        }
        _ => errors.push(policy.not_supported(&["OnFailure", "Never"])),
    }
}

/// Validates an update of a Job. Errors of its spec are found twice, as in Kubernetes.
pub fn validate_job_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate(object, Some(stored), errors);
    let (spec, old) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    validate_whole_spec(&spec, Some(stored), errors);
    validate_completions(&spec, &old, errors);
    let selector = spec.member("selector");
    if !is_same(selector.value(), old.member("selector").value()) {
        errors.push(invalid_selector(&selector, IMMUTABLE));
    }
    validate_template_update(stored, &spec, &old, errors);
    let validate_fixed = |name: &str, type_name: &str, errors: &mut ErrorList| {
        let field = spec.member(name);
        if !is_same(field.value(), old.member(name).value()) {
            errors.push(invalid_struct(&field, type_name, IMMUTABLE));
        }
    };
    let mode = spec.member("completionMode");
    validate_immutable(&mode, &old.member("completionMode"), errors);
    validate_fixed("podFailurePolicy", "batch.v1.PodFailurePolicy", errors);
    for name in ["backoffLimitPerIndex", "managedBy"] {
        validate_immutable(&spec.member(name), &old.member(name), errors);
    }
    validate_fixed("successPolicy", "batch.v1.SuccessPolicy", errors);
}

/// Validates that completions change only in indexed Jobs, together with the parallelism.
fn validate_completions(spec: &Field<'_>, old: &Field<'_>, errors: &mut ErrorList) {
    let completions = spec.member("completions");
    if is_same(completions.value(), old.member("completions").value()) {
        return;
    }
    if spec.member("completionMode").text() != "Indexed" {
        errors.push(completions.invalid(IMMUTABLE));
    } else if completions.is_set() && completions.int() != spec.member("parallelism").int() {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}
