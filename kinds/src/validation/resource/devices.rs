//! What is refused of the devices of a slice.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use serde_json::Value;

use super::names::{shown_name, validate_qualified};
use super::request_policy::validate_policy;
use super::slices::{names_text, validate_counter_set, validate_node_choice};
use super::{validate_length, validate_unique};
use crate::validation::Faults;
use crate::validation::formats::report;
use crate::validation::internal::invalid_struct;
use crate::validation::selectors::validate_label_name;
use crate::validation::texts::require_one_of;

const MAX_ATTRIBUTES: usize = 32;
const MAX_ATTRIBUTE_BYTES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMED: usize = 2;
const MAX_CONDITIONS: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The faults of a device.
pub fn validate_device(device: &Field<'_>, has_own_nodes: bool, faults: &mut Faults) {
    let name = device.member("name");
    report(&name, names::dns_label(name.text()), faults);
    let attributes = device.member("attributes");
    let capacity = device.member("capacity");
    let count = attributes.len() + capacity.len();
    if count > MAX_ATTRIBUTES {
        faults.push(device.invalid_value(
            count,
            format!(
                "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
            ),
        ));
    }
    for (name, attribute) in attributes.entries() {
        validate_qualified(name, &attributes, faults);
        let shown = shown_name(name);
        let place = attributes.key(&shown);
        let value = attribute.value().unwrap_or(&Value::Null);
        validate_attribute(&place.with_value(value), faults);
    }
    let is_shared = device.member("allowMultipleAllocations").is_true();
    for (name, amount) in capacity.entries() {
        validate_qualified(name, &capacity, faults);
        let shown = shown_name(name);
        let place = capacity.key(&shown);
        let value = amount.value().unwrap_or(&Value::Null);
        validate_policy(&place.with_value(value), is_shared, faults);
    }
    let taints = device.member("taints");
    if validate_length(&taints, MAX_TAINTS, faults) {
        for taint in taints.items() {
            validate_taint(&taint, faults);
        }
    }
    let consumed = device.member("consumesCounters");
    if validate_length(&consumed, MAX_CONSUMED, faults) {
        for set in consumed.items() {
            validate_counter_set(&set, "counterSet", faults);
        }
        validate_unique(&consumed, "counterSet", faults);
    }
    validate_nodes(device, has_own_nodes, faults);
    validate_conditions(device, faults);
}

fn validate_attribute(attribute: &Field<'_>, faults: &mut Faults) {
    for name in ["string", "version"] {
        let text = attribute.member(name);
        if name == "version" && text.is_set() && !is_semantic_version(text.text()) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            faults.push(text.invalid(detail));
        }
        if text.text().len() > MAX_ATTRIBUTE_BYTES {
            faults.push(text.too_long(MAX_ATTRIBUTE_BYTES));
        }
    }
    let detail = "exactly one value must be specified";
    match attribute.len() {
        0 => faults.push(attribute.invalid_value("", detail)),
        1 => {}
        _ => {
            let type_name = "resource.v1.DeviceAttribute";
            faults.push(invalid_struct(attribute, type_name, detail));
        }
    }
}

/// Whether a text is a version of semver.org 2.0.0.
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

fn validate_taint(taint: &Field<'_>, faults: &mut Faults) {
    let key = taint.member("key");
    validate_label_name(key.text(), &key, faults);
    let value = taint.member("value");
    report(&value, names::label_value(value.text()), faults);
    require_one_of(&taint.member("effect"), &EFFECTS, faults);
}

/// A device says on which nodes it is if its slice does not.
fn validate_nodes(device: &Field<'_>, has_own_nodes: bool, faults: &mut Faults) {
    let names = ["nodeName", "nodeSelector", "allNodes"];
    if !has_own_nodes {
        if names.iter().any(|name| device.member(name).is_set()) {
            faults.push(device.invalid_value(
                Value::Null,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                 `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            ));
        }
        return;
    }
    let found = validate_node_choice(device, &names, faults);
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
               `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match found.len() {
        0 => faults.push(device.required(one)),
        1 => {}
        _ => faults.push(device.invalid_value(names_text(&found), one)),
    }
}

/// Conditions for the use of a device go together with those of its failure.
pub(super) fn validate_conditions(device: &Field<'_>, faults: &mut Faults) {
    let good = device.member("bindingConditions");
    let bad = device.member("bindingFailureConditions");
    for list in [&good, &bad] {
        if validate_length(list, MAX_CONDITIONS, faults) {
            for condition in list.items() {
                validate_label_name(condition.text(), &condition, faults);
            }
        }
    }
    let mut conditions = HashSet::new();
    for (condition, value) in good.items().zip(good.list()) {
        if !conditions.insert(value) {
            faults.push(condition.duplicate());
        }
    }
    let mut seen = HashSet::new();
    for (condition, value) in bad.items().zip(bad.list()) {
        if !seen.insert(value) {
            faults.push(condition.duplicate());
        }
        if conditions.contains(value) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            faults.push(condition.invalid(detail));
        }
    }
    let (missing, detail) = match (good.is_empty(), bad.is_empty()) {
        (false, true) => (
            &bad,
            "bindingFailureConditions are required to use bindingConditions",
        ),
        (true, false) => (
            &good,
            "bindingConditions are required to use bindingFailureConditions",
        ),
        _ => return,
    };
    let shown = missing.value().cloned().unwrap_or_default();
    faults.push(missing.invalid_value(shown, detail));
}
