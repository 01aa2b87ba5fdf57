//! Validation of webhook configurations.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use api::structural::Budget;

use super::client::{validate_webhook_service, validate_webhook_url};
use super::rules::validate_rule;
use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, validate_match_conditions};
use crate::validation::enums::validate_one_of;
use crate::validation::expressions::ADMISSION;
use crate::validation::report;
use crate::validation::required::require_valid;
use crate::validation::selectors::validate_label_selector;
use crate::validation::text_formats::dns1035_label;
use api::error_list::ErrorList;

/// The side effects that webhooks may have, and the AdmissionReview versions that are sent.
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Validates a ValidatingWebhookConfiguration.
pub fn validate_validatingwebhookconfiguration(object: &Object, errors: &mut ErrorList) {
    validate_webhooks(object, errors);
}

/// Validates an update of a ValidatingWebhookConfiguration.
pub fn validate_validatingwebhookconfiguration_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_webhooks(object, errors);
}

/// Validates a MutatingWebhookConfiguration.
pub fn validate_mutatingwebhookconfiguration(object: &Object, errors: &mut ErrorList) {
    validate_webhooks(object, errors);
}

/// Validates an update of a MutatingWebhookConfiguration.
pub fn validate_mutatingwebhookconfiguration_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_webhooks(object, errors);
}

fn validate_webhooks(object: &Object, errors: &mut ErrorList) {
    let hooks = Field::of(object, "webhooks");
    let mut seen = HashSet::new();
    for (hook, value) in hooks.items().zip(hooks.list()) {
        validate_webhook(&hook, errors);
        let versions = hook.member("admissionReviewVersions");
        let missing = "must specify one of v1, v1beta1";
        validate_review_versions(&versions, missing, true, errors);
        let name = value.get("name").and_then(|name| name.as_str());
        let name = name.unwrap_or_default();
        if !name.is_empty() && !seen.insert(name) {
            errors.push(hook.member("name").duplicate());
        }
    }
}

fn validate_webhook(hook: &Field<'_>, errors: &mut ErrorList) {
    validate_name(&hook.member("name"), errors);
    for rule in hook.member("rules").items() {
        validate_rule(&rule, errors);
    }
    validate_one_of(&hook.member("failurePolicy"), &FAILURE_POLICIES, errors);
    validate_one_of(&hook.member("matchPolicy"), &MATCH_POLICIES, errors);
    let side_effects = hook.member("sideEffects");
    if !side_effects.is_set() {
        errors.push(side_effects.required("must specify one of None, NoneOnDryRun"));
    }
    validate_one_of(&side_effects, &SIDE_EFFECTS, errors);
    let timeout = hook.member("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&hook.member(name), false, errors);
    }
    let reinvocation = hook.member("reinvocationPolicy");
    validate_one_of(&reinvocation, &REINVOCATION_POLICIES, errors);
    let client = hook.member("clientConfig");
    let url = client.member("url");
    let service = client.member("service");
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_webhook_url(&url, errors),
        (false, true) => validate_webhook_service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    let conditions = hook.member("matchConditions");
    let expressions = conditions
        .items()
        .map(|of| of.member("expression").text().len());
    let budget = Budget::of_expressions(expressions.sum());
    validate_match_conditions(&conditions, &ADMISSION, &budget, errors);
}

/// Validates that a webhook's name is a domain with at least three segments.
fn validate_name(name: &Field<'_>, errors: &mut ErrorList) {
    let before = errors.reported();
    require_valid(name, names::dns_subdomain, errors);
    if errors.reported() == before && name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(name.invalid(detail));
    }
}

/// Reports whether one of these versions of a review is known. An empty list counts as known.
pub fn knows_review(versions: &Field<'_>) -> bool {
    let is_known = |version: Field<'_>| REVIEW_VERSIONS.contains(&version.text());
    versions.is_empty() || versions.items().any(is_known)
}

/// Validates the AdmissionReview versions of a webhook. `missing` is the message if the list is
/// empty.
pub fn validate_review_versions(
    versions: &Field<'_>,
    missing: &str,
    must_be_known: bool,
    errors: &mut ErrorList,
) {
    if versions.is_empty() {
        errors.push(versions.required(missing));
        return;
    }
    let mut seen = HashSet::new();
    for (version, value) in versions.items().zip(versions.list()) {
        if !seen.insert(value) {
            errors.push(version.invalid("duplicate version"));
            continue;
        }
        report(&version, dns1035_label(version.text()), errors);
    }
    if must_be_known && !knows_review(versions) {
        errors.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}
