//! What is refused of webhooks.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;

use super::client::{validate_webhook_service, validate_webhook_url};
use super::rules::validate_rule;
use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, validate_match_conditions};
use crate::validation::expressions::ADMISSION;
use crate::validation::formats::dns1035_label;
use crate::validation::selectors::validate_label_selector;
use crate::validation::{Faults, formats, texts};

/// Side effects that hooks may have, and the versions of reviews that are sent.
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The faults of webhooks that refuse objects.
pub fn validate_validatingwebhookconfiguration(object: &Object) -> Faults {
    validate_webhooks(object)
}

/// The faults of a change to webhooks that refuse objects.
pub fn validate_validatingwebhookconfiguration_update(object: &Object, _stored: &Object) -> Faults {
    validate_webhooks(object)
}

/// The faults of webhooks that change objects.
pub fn validate_mutatingwebhookconfiguration(object: &Object) -> Faults {
    validate_webhooks(object)
}

/// The faults of a change to webhooks that change objects.
pub fn validate_mutatingwebhookconfiguration_update(object: &Object, _stored: &Object) -> Faults {
    validate_webhooks(object)
}

fn validate_webhooks(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let hooks = Field::of(object, "webhooks");
    let mut seen = HashSet::new();
    for (hook, value) in hooks.items().zip(hooks.list()) {
        validate_webhook(&hook, &mut faults);
        let versions = hook.member("admissionReviewVersions");
        let missing = "must specify one of v1, v1beta1";
        validate_review_versions(&versions, missing, &mut faults);
        let name = value.get("name").and_then(|name| name.as_str());
        let name = name.unwrap_or_default();
        if !name.is_empty() && !seen.insert(name) {
            faults.push(hook.member("name").duplicate());
        }
    }
    faults
}

fn validate_webhook(hook: &Field<'_>, faults: &mut Faults) {
    validate_name(&hook.member("name"), faults);
    for rule in hook.member("rules").items() {
        validate_rule(&rule, faults);
    }
    texts::validate_one_of(&hook.member("failurePolicy"), &FAILURE_POLICIES, faults);
    texts::validate_one_of(&hook.member("matchPolicy"), &MATCH_POLICIES, faults);
    let side_effects = hook.member("sideEffects");
    if !side_effects.is_set() {
        faults.push(side_effects.required("must specify one of None, NoneOnDryRun"));
    }
    texts::validate_one_of(&side_effects, &SIDE_EFFECTS, faults);
    let timeout = hook.member("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        faults.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&hook.member(name), false, faults);
    }
    let reinvocation = hook.member("reinvocationPolicy");
    texts::validate_one_of(&reinvocation, &REINVOCATION_POLICIES, faults);
    let client = hook.member("clientConfig");
    let url = client.member("url");
    let service = client.member("service");
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_webhook_url(&url, faults),
        (false, true) => validate_webhook_service(&service, faults),
        _ => faults.push(client.required("exactly one of url or service is required")),
    }
    validate_match_conditions(&hook.member("matchConditions"), &ADMISSION, faults);
}

/// The name of a webhook is a domain of three parts or more.
fn validate_name(name: &Field<'_>, faults: &mut Faults) {
    let before = faults.len();
    texts::require_valid(name, names::dns_subdomain, faults);
    if faults.len() == before && name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        faults.push(name.invalid(detail));
    }
}

/// The faults of the versions of reviews that a webhook reads. `missing` is said if there are none.
pub fn validate_review_versions(versions: &Field<'_>, missing: &str, faults: &mut Faults) {
    if versions.is_empty() {
        faults.push(versions.required(missing));
        return;
    }
    let mut seen = HashSet::new();
    let mut is_recognized = false;
    for (version, value) in versions.items().zip(versions.list()) {
        if !seen.insert(value) {
            faults.push(version.invalid("duplicate version"));
            continue;
        }
        formats::report(&version, dns1035_label(version.text()), faults);
        is_recognized |= REVIEW_VERSIONS.contains(&version.text());
    }
    if !is_recognized {
        faults.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}
