//! What is refused of slices of devices.

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::devices::validate_device;
use super::names::{validate_driver, validate_pool};
use super::{validate_length, validate_unique};
use crate::validation::formats::report;
use crate::validation::internal::internal_list_json;
use crate::validation::pods::scheduling::validate_node_selector;
use crate::validation::texts;
use api::error_list::ErrorList;

const MAX_DEVICES: usize = 128;
/// The limit for slices with devices that have taints or take of counters.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const UNSET_OR_TRUE: &str = "must be either unset or set to true";

/// Adds the errors of a slice.
pub fn validate_resourceslice(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

/// Adds the errors of a change to a slice: its driver, pool and node stay.
pub fn validate_resourceslice_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate(object, Some(stored), errors);
}

fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_driver(&spec.member("driver"), errors);
    let pool = spec.member("pool");
    validate_pool(&pool.member("name"), errors);
    let count = pool.member("resourceSliceCount");
    let number = count.int().unwrap_or(0);
    if number <= 0 {
        errors.push(count.invalid_value(number, "must be greater than zero"));
    }
    let generation = pool.member("generation");
    if generation.int().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    if let Some(stored) = stored {
        validate_unchanged(&spec, &Field::of(stored, "spec"), errors);
    }
    validate_nodes(&spec, errors);
    let devices = spec.member("devices");
    let counters = spec.member("sharedCounters");
    if devices.is_set() && counters.is_set() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(spec.invalid_value("", detail));
    }
    let is_complex = devices.list().iter().any(|device| {
        let has = |name: &str| device.get(name).is_some_and(|list| list != &Value::Null);
        has("taints") || has("consumesCounters")
    });
    let most = if is_complex {
        MAX_COMPLEX_DEVICES
    } else {
        MAX_DEVICES
    };
    if validate_length(&devices, most, errors) {
        let has_own_nodes = spec.member("perDeviceNodeSelection").is_true();
        for device in devices.items() {
            validate_device(&device, has_own_nodes, errors);
        }
        validate_unique(&devices, "name", errors);
    }
    if validate_length(&counters, MAX_COUNTER_SETS, errors) {
        for set in counters.items() {
            validate_counter_set(&set, "name", errors);
        }
        validate_unique(&counters, "name", errors);
    }
}

/// What of a slice can't change.
fn validate_unchanged(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    let (pool, old_pool) = (spec.member("pool"), before.member("pool"));
    let fields = [
        (pool.member("name"), old_pool.member("name")),
        (spec.member("driver"), before.member("driver")),
    ];
    for (field, old) in fields {
        if field.text() != old.text() {
            errors.push(field.invalid_value(field.text(), "field is immutable"));
        }
    }
    let node = spec.member("nodeName");
    if node.value() != before.member("nodeName").value() {
        errors.push(node.invalid("field is immutable"));
    }
}

/// Adds the errors of counters of a set, with the name of the set in this member.
pub(super) fn validate_counter_set(set: &Field<'_>, member: &str, errors: &mut ErrorList) {
    texts::require_valid(&set.member(member), names::dns_label, errors);
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

/// The ways to say which nodes have devices.
const NODES: [&str; 4] = [
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];

fn validate_nodes(spec: &Field<'_>, errors: &mut ErrorList) {
    let found = validate_node_choice(spec, &NODES, errors);
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` \
               is required";
    match found.len() {
        0 => errors.push(spec.required(one)),
        1 => {}
        _ => {
            let detail = format!("{one}, but multiple fields are set");
            errors.push(spec.invalid_value(names_text(&found), detail));
        }
    }
}

/// Names in backquotes, in braces.
pub(super) fn names_text(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{{{}}}", quoted.join(", "))
}

/// Adds the errors of the nodes that have devices. Returns the ways in which they are given.
pub(super) fn validate_node_choice<'n>(
    choice: &Field<'_>,
    names: &[&'n str],
    errors: &mut ErrorList,
) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        let field = choice.member(name);
        let Some(value) = field.value() else {
            continue;
        };
        match value {
            Value::Bool(false) => {
                errors.push(field.invalid(UNSET_OR_TRUE));
                continue;
            }
            Value::String(text) if text.is_empty() => {
                let detail = "must be either unset or set to a non-empty string";
                errors.push(field.invalid(detail));
                continue;
            }
            Value::String(text) => report(&field, api::names::dns_subdomain(text), errors),
            Value::Object(_) => validate_selector(&field, errors),
            _ => {}
        }
        found.push(*name);
    }
    found
}

/// A selector of the nodes of devices has one term.
fn validate_selector(selector: &Field<'_>, errors: &mut ErrorList) {
    validate_node_selector(selector, errors);
    let terms = selector.member("nodeSelectorTerms");
    if terms.len() != 1 {
        let error = terms.invalid("must have exactly one node selector term");
        errors.push(error.showing_json(|| match terms.is_set() {
            true => internal_list_json("core.v1.NodeSelectorTerm", terms.list()),
            false => "null".to_owned(),
        }));
    }
}
