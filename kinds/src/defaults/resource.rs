//! Defaults of ResourceClaims, ResourceClaimTemplates and ResourceSlices. `timeAdded` of device
//! taints is set by the stamp of their rows.

use api::object::{Object, whole_seconds};
use jiff::Timestamp;
use serde_json::Value;

use super::pods::resources::quantity;
use super::{Members, items, member, set_absent, set_default, set_number};

/// Sets the defaults of a ResourceClaim.
pub fn resourceclaim(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        claim_spec(spec);
    }
}

/// Sets the defaults of a ResourceClaimTemplate.
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

/// Sets the default number of requested devices.
pub(crate) fn count(request: &mut Members) {
    set_default(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").and_then(Value::as_str) == Some("ExactCount") {
        set_number(request, "count", 1);
    }
}

/// Sets the defaults of tolerations and capacities of a device request.
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

/// Fields of devices and of their attributes that belong to disabled feature gates.
const DISABLED: [&str; 1] = ["nodeAllocatableResourceMappings"];
const DISABLED_VALUES: [&str; 4] = ["ints", "bools", "strings", "versions"];

/// Brings the quantities of a ResourceSlice into canonical form, and drops fields of disabled
/// feature gates.
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

/// Normalizes a ResourceSlice read from storage, and drops nothing. A device taint without a time
/// gets the time of the read (KV-30).
pub fn stored_resourceslice(object: &mut Object, now: Timestamp) {
    let spec = member(&mut object.0, "spec");
    for device in spec.into_iter().flat_map(|spec| items(spec, "devices")) {
        let mappings = member(device, "nodeAllocatableResourceMappings");
        let mappings = mappings.into_iter().flatten();
        for mapping in mappings.filter_map(|(_, mapping)| mapping.as_object_mut()) {
            set_absent(mapping, "allocationMultiplier", "1");
            quantity(mapping, "allocationMultiplier");
        }
        for taint in items(device, "taints") {
            set_absent(taint, "timeAdded", whole_seconds(now));
        }
    }
    quantities_of_slice(object);
}

/// Brings the quantities of a ResourceSlice into canonical form.
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
