//! Validation of the devices of a ResourceSlice.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use serde_json::Value;

use super::names::{shown_name, validate_qualified};
use super::node_choice::{names_text, validate_node_choice};
use super::request_policy::validate_policy;
use super::{validate_length, validate_unique};
use crate::types::internal::invalid_struct;
use crate::validation::enums::require_one_of;
use crate::validation::report;
use crate::validation::required::require_valid;
use crate::validation::selectors::validate_label_name;
use api::error_list::ErrorList;

const MAX_ATTRIBUTES: usize = 32;
const MAX_ATTRIBUTE_BYTES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMED: usize = 2;
const MAX_COUNTERS: usize = 32;
const MAX_CONDITIONS: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a device. With `has_own_nodes`, devices specify their nodes themselves.
pub fn validate_device(device: &Field<'_>, has_own_nodes: bool, errors: &mut ErrorList) {
    let name = device.member("name");
    report(&name, names::dns_label(name.text()), errors);
    let attributes = device.member("attributes");
    let capacity = device.member("capacity");
    let count = attributes.len() + capacity.len();
    if count > MAX_ATTRIBUTES {
        errors.push(device.invalid_value(
            count,
            format!(
                "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
            ),
        ));
    }
    for (name, attribute) in attributes.entries() {
        validate_qualified(name, &attributes, errors);
        let shown = shown_name(name);
        let place = attributes.key(&shown);
        let value = attribute.value().unwrap_or(&Value::Null);
        validate_attribute(&place.with_value(value), errors);
    }
    let is_shared = device.member("allowMultipleAllocations").is_true();
    for (name, amount) in capacity.entries() {
        validate_qualified(name, &capacity, errors);
        let shown = shown_name(name);
        let place = capacity.key(&shown);
        let value = amount.value().unwrap_or(&Value::Null);
        validate_policy(&place.with_value(value), is_shared, errors);
    }
    let taints = device.member("taints");
    if validate_length(&taints, MAX_TAINTS, errors) {
        for taint in taints.items() {
            validate_taint(&taint, errors);
        }
    }
    let consumed = device.member("consumesCounters");
    if validate_length(&consumed, MAX_CONSUMED, errors) {
        for set in consumed.items() {
            validate_counter_set(&set, "counterSet", errors);
        }
        validate_unique(&consumed, "counterSet", errors);
    }
    validate_nodes(device, has_own_nodes, errors);
    validate_conditions(device, errors);
}

/// Validates a set of counters, whose name is in this member.
pub(super) fn validate_counter_set(set: &Field<'_>, member: &str, errors: &mut ErrorList) {
    require_valid(&set.member(member), names::dns_label, errors);
    let counters = set.member("counters");
    if counters.is_empty() {
        errors.push(counters.required(""));
    }
    if !validate_length(&counters, MAX_COUNTERS, errors) {
        return;
    }
    for (name, _) in counters.entries() {
        for message in names::dns_label(name) {
            errors.push(counters.invalid_value(name, message));
        }
    }
}

fn validate_attribute(attribute: &Field<'_>, errors: &mut ErrorList) {
    for name in ["string", "version"] {
        let text = attribute.member(name);
        if name == "version" && text.is_set() && !is_semantic_version(text.text()) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(text.invalid(detail));
        }
        if text.text().len() > MAX_ATTRIBUTE_BYTES {
            errors.push(text.too_long(MAX_ATTRIBUTE_BYTES));
        }
    }
    let detail = "exactly one value must be specified";
    match attribute.len() {
        0 => errors.push(attribute.invalid_value("", detail)),
        1 => {}
        _ => {
            let type_name = "resource.v1.DeviceAttribute";
            errors.push(invalid_struct(attribute, type_name, detail));
        }
    }
}

/// Reports whether a text is a semantic version (semver.org 2.0.0).
fn is_semantic_version(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'))
    };
    let is_word = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !text.is_empty() && text.bytes().all(is_letter)
    };
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (core, release) = match text.split_once('-') {
        Some((core, release)) => (core, Some(release)),
        None => (text, None),
    };
    let is_release = |part: &str| {
        is_word(part) && (is_number(part) || !part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|release| release.split('.').all(is_release))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

fn validate_taint(taint: &Field<'_>, errors: &mut ErrorList) {
    let key = taint.member("key");
    validate_label_name(key.text(), &key, errors);
    let value = taint.member("value");
    report(&value, names::label_value(value.text()), errors);
    require_one_of(&taint.member("effect"), &EFFECTS, errors);
}

/// Validates that a device specifies its nodes if and only if its slice leaves that to devices.
fn validate_nodes(device: &Field<'_>, has_own_nodes: bool, errors: &mut ErrorList) {
    let names = ["nodeName", "nodeSelector", "allNodes"];
    if !has_own_nodes {
        if names.iter().any(|name| device.member(name).is_set()) {
            errors.push(device.invalid_value(
                Value::Null,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                 `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            ));
        }
        return;
    }
    let found = validate_node_choice(device, &names, errors);
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
               `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match found.len() {
        0 => errors.push(device.required(one)),
        1 => {}
        _ => errors.push(device.invalid_value(names_text(&found), one)),
    }
}

/// Validates that binding conditions and binding failure conditions are used together.
pub(super) fn validate_conditions(device: &Field<'_>, errors: &mut ErrorList) {
    let binding = device.member("bindingConditions");
    let failure = device.member("bindingFailureConditions");
    for list in [&binding, &failure] {
        if validate_length(list, MAX_CONDITIONS, errors) {
            for condition in list.items() {
                validate_label_name(condition.text(), &condition, errors);
            }
        }
    }
    let mut conditions = HashSet::new();
    for (condition, value) in binding.items().zip(binding.list()) {
        if !conditions.insert(value) {
            errors.push(condition.duplicate());
        }
    }
    let mut seen = HashSet::new();
    for (condition, value) in failure.items().zip(failure.list()) {
        if !seen.insert(value) {
            errors.push(condition.duplicate());
        }
        if conditions.contains(value) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(condition.invalid(detail));
        }
    }
    let (missing, detail) = match (binding.is_empty(), failure.is_empty()) {
        (false, true) => (
            &failure,
            "bindingFailureConditions are required to use bindingConditions",
        ),
        (true, false) => (
            &binding,
            "bindingConditions are required to use bindingFailureConditions",
        ),
        _ => return,
    };
    let shown = missing.value().cloned().unwrap_or_default();
    errors.push(missing.invalid_value(shown, detail));
}
