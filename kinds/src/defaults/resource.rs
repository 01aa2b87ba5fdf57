//! What is filled in of claims of devices, their templates, and slices of devices. When a device
//! was tainted is known where rows are prepared.

use api::object::Object;
use serde_json::Value;

use super::pods::resources::quantity;
use super::{Members, items, member, set_default, set_number};

/// Fills in a claim.
pub fn resourceclaim(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        claim_spec(spec);
    }
}

/// Fills in a template for claims.
pub fn resourceclaimtemplate(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(spec) = spec.and_then(|spec| member(spec, "spec")) {
        claim_spec(spec);
    }
}

fn claim_spec(spec: &mut Members) {
    let Some(devices) = member(spec, "devices") else {
        return;
    };
    for request in items(devices, "requests") {
        if let Some(exactly) = member(request, "exactly") {
            device_request(exactly);
        }
        items(request, "firstAvailable").for_each(device_request);
    }
}

fn device_request(request: &mut Members) {
    count(request);
    conditions(request);
}

/// Fills in how many devices are asked for.
pub(crate) fn count(request: &mut Members) {
    set_default(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").and_then(Value::as_str) == Some("ExactCount") {
        set_number(request, "count", 1);
    }
}

/// Fills in which devices are asked for.
pub(crate) fn conditions(request: &mut Members) {
    for toleration in items(request, "tolerations") {
        set_default(toleration, "operator", "Equal");
    }
    let capacity = member(request, "capacity");
    if let Some(requests) = capacity.and_then(|capacity| member(capacity, "requests")) {
        let names: Vec<String> = requests.keys().cloned().collect();
        names.iter().for_each(|name| quantity(requests, name));
    }
}

/// What devices and their attributes have that is not enabled.
const DISABLED: [&str; 1] = ["nodeAllocatableResourceMappings"];
const DISABLED_VALUES: [&str; 4] = ["ints", "bools", "strings", "versions"];

/// Fills in a slice of devices: nothing but the canonical form of quantities. What is not enabled
/// is dropped.
pub fn resourceslice(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    for device in spec.into_iter().flat_map(|spec| items(spec, "devices")) {
        for name in DISABLED {
            device.remove(name);
        }
        let attributes = member(device, "attributes").into_iter().flatten();
        for attribute in attributes.filter_map(|(_, attribute)| attribute.as_object_mut()) {
            for name in DISABLED_VALUES {
                attribute.remove(name);
            }
        }
    }
    quantities_of_slice(object);
}

/// Brings the quantities of a slice of devices into their canonical form.
pub(crate) fn quantities_of_slice(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    for set in items(spec, "sharedCounters") {
        values(set, "counters");
    }
    for device in items(spec, "devices") {
        values(device, "capacity");
        for consumed in items(device, "consumesCounters") {
            values(consumed, "counters");
        }
    }
}

fn values(members: &mut Members, name: &str) {
    let map = member(members, name).into_iter().flatten();
    for value in map.filter_map(|(_, value)| value.as_object_mut()) {
        quantity(value, "value");
    }
}
