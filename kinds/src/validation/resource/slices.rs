//! Validation of ResourceSlices.

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use super::devices::{validate_counter_set, validate_device};
use super::names::{validate_driver, validate_pool};
use super::node_choice::{names_text, validate_node_choice};
use super::{validate_length, validate_unique};
use api::error_list::ErrorList;

const MAX_DEVICES: usize = 128;
/// The limit of devices in slices with taints or consumed counters.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;

/// Validates a ResourceSlice.
pub fn validate_resourceslice(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

/// Validates an update of a ResourceSlice, whose driver, pool and node are immutable.
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

/// Validates the immutable fields of a slice.
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

/// The members that specify the nodes of devices.
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
