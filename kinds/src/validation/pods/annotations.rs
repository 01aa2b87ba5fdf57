//! Validation of annotations that configure pods.

use api::field::Field;
use serde_json::{Value, json};

use super::scheduling::validate_tolerations;
use super::visit_containers;
use super::volumes::files::validate_descending_path;
use api::error_list::ErrorList;
use api::go_json::{Expected, document_error};

/// Marks a mirror pod, which represents a static pod of a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Validates annotations of a pod with this spec.
pub fn validate_pod_annotations(given: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    if given.is_empty() {
        return;
    }
    let mirror = given.key(MIRROR);
    if mirror.is_set() && spec.member("nodeName").text().is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    validate_annotated_tolerations(given, errors);
    let cost = given.key(DELETION_COST);
    if cost.is_set() && !is_deletion_cost(cost.text()) {
        errors.push(cost.invalid("must be a 32bit integer"));
    }
    let profile = given.member(SECCOMP_POD);
    if profile.is_set() {
        validate_seccomp_profile(&profile, errors);
    }
    for (key, _) in given.entries() {
        if key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp_profile(&given.member(key), errors);
        }
    }
    for (key, profile) in given.entries() {
        if let Some(container) = key.strip_prefix(APPARMOR) {
            validate_apparmor_profile(container, &profile, spec, errors);
        }
    }
}

fn validate_annotated_tolerations(given: &Field<'_>, errors: &mut ErrorList) {
    let text = given.key(TOLERATIONS).text();
    if text.is_empty() {
        return;
    }
    if let Some(wrong) = document_error(text.as_bytes(), Expected::List, "[]core.Toleration") {
        errors.push(given.invalid_value(TOLERATIONS, wrong));
        return;
    }
    if let Ok(tolerations) = serde_json::from_str::<Value>(text) {
        let place = given.member(TOLERATIONS);
        validate_tolerations(&place.with_value(&tolerations), errors);
    }
}

/// Reports whether a text is a 32-bit integer without a plus sign or leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" && !text.starts_with('-')
        || digits
            .bytes()
            .next()
            .is_some_and(|first| matches!(first, b'1'..=b'9'));
    is_plain && text.parse::<i32>().is_ok()
}

fn validate_seccomp_profile(profile: &Field<'_>, errors: &mut ErrorList) {
    let text = profile.text();
    if let Some(path) = text.strip_prefix("localhost/") {
        let path = json!(path);
        validate_descending_path(&profile.with_value(&path), errors);
    } else if !matches!(text, "runtime/default" | "docker/default" | "unconfined") {
        errors.push(profile.invalid("must be a valid seccomp profile"));
    }
}

fn validate_apparmor_profile(
    container: &str,
    profile: &Field<'_>,
    spec: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut is_found = false;
    visit_containers(spec, &mut |found| {
        is_found |= found.member("name").text() == container;
    });
    if !is_found {
        errors.push(profile.invalid_value(container, "container not found"));
    }
    let text = profile.text();
    if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
        let detail = format!(
            "invalid AppArmor profile name: {}",
            api::text::quoting::go_quote(text)
        );
        errors.push(profile.invalid(detail));
    }
}

/// Validates that seccomp profiles in annotations match those in fields.
pub fn validate_seccomp_match(given: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    if given.is_empty() {
        return;
    }
    let context = spec.member("securityContext");
    let profile = context.member("seccompProfile");
    check_match(&given.member(SECCOMP_POD), &profile, &SECCOMP, errors);
    visit_containers(spec, &mut |container| {
        let context = container.member("securityContext");
        let profile = context.member("seccompProfile");
        let key = format!("{SECCOMP_CONTAINER}{}", container.member("name").text());
        check_match(&given.member(&key), &profile, &SECCOMP, errors);
    });
}

/// Validates that AppArmor profiles in annotations match those in fields.
pub fn validate_apparmor_match(given: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    if given.is_empty() || spec.member("os").member("name").text() == "windows" {
        return;
    }
    let context = spec.member("securityContext");
    let of_pod = context.member("appArmorProfile");
    visit_containers(spec, &mut |container| {
        let context = container.member("securityContext");
        let own = context.member("appArmorProfile");
        let shown = match (own.value(), of_pod.value()) {
            (None, Some(value)) => own.with_value(value),
            _ => own,
        };
        let key = format!("{APPARMOR}{}", container.member("name").text());
        check_match(&given.member(&key), &shown, &APP_ARMOR, errors);
    });
}

/// The parameters for comparing one kind of profile in annotations and fields.
struct Comparison {
    types: &'static str,
    profiles: &'static str,
    defaults: &'static [&'static str],
}

const SECCOMP: Comparison = Comparison {
    types: "seccomp type in annotation and field must match",
    profiles: "seccomp profile in annotation and field must match",
    defaults: &["runtime/default", "docker/default"],
};

const APP_ARMOR: Comparison = Comparison {
    types: "apparmor type in annotation and field must match",
    profiles: "apparmor profile in annotation and field must match",
    defaults: &["runtime/default"],
};

fn check_match(
    annotation: &Field<'_>,
    profile: &Field<'_>,
    comparison: &Comparison,
    errors: &mut ErrorList,
) {
    if !annotation.is_set() || !profile.is_set() {
        return;
    }
    let text = annotation.text();
    let of = profile.member("type");
    let is_same = match of.text() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => comparison.defaults.contains(&text),
        "Localhost" => match text.strip_prefix("localhost/") {
            Some(path) => {
                let field = profile.member("localhostProfile");
                if field.value().and_then(Value::as_str) != Some(path) {
                    errors.push(field.forbidden(comparison.profiles));
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !is_same {
        errors.push(of.forbidden(comparison.types));
    }
}

/// Validates an update of annotations, some of which are immutable.
pub fn validate_annotation_changes(given: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    for (key, old) in before.entries() {
        let field = given.key(key);
        if field.value() == old.value() {
            continue;
        }
        if key.starts_with(APPARMOR) {
            errors.push(field.forbidden("may not remove or update AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(field.forbidden("may not remove or update mirror pod annotation"));
        }
    }
    for (key, field) in given.entries() {
        if before.key(key).is_set() {
            continue;
        }
        if key.starts_with(APPARMOR) {
            errors.push(field.forbidden("may not add AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(field.forbidden("may not add mirror pod annotation"));
        }
    }
}
