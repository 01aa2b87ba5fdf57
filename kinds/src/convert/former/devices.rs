//! ResourceClaims and ResourceSlices in `resource.k8s.io/v1beta1`. A claim has the request's fields
//! next to its name, and a device has a `basic` struct; both moved in later versions.

use api::object::Object;
use serde_json::{Map, Value};

use crate::defaults::resource::{conditions, count, quantities_of_slice};
use crate::defaults::{Members, items, member};

/// The fields of a request for devices of exactly one class.
const ASKED: [&str; 7] = [
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "deviceClassName",
    "selectors",
    "tolerations",
];

/// Converts a ResourceClaim.
pub(super) fn claim(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        requests(spec);
    }
}

/// Converts a ResourceClaimTemplate.
pub(super) fn template(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(spec) = spec.and_then(|spec| member(spec, "spec")) {
        requests(spec);
    }
}

fn requests(spec: &mut Members) {
    let Some(devices) = member(spec, "devices") else {
        return;
    };
    for request in items(devices, "requests") {
        for alternative in items(request, "firstAvailable") {
            count(alternative);
            conditions(alternative);
        }
        let asked = ASKED.iter().filter_map(|name| request.remove_entry(*name));
        let mut exactly: Map<String, Value> = asked.filter(|(_, value)| is_given(value)).collect();
        if exactly.contains_key("deviceClassName") {
            count(&mut exactly);
        }
        if !exactly.is_empty() {
            conditions(&mut exactly);
            request.insert("exactly".to_owned(), exactly.into());
        }
    }
}

/// Reports whether a field has a value. An empty list counts as one.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        _ => true,
    }
}

/// Converts a ResourceSlice. `timeAdded` of taints is not defaulted.
pub(super) fn slice(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        spec.retain(|name, value| match name.as_str() {
            "allNodes" => *value == Value::Bool(true),
            "nodeName" => is_given(value),
            _ => true,
        });
        for device in items(spec, "devices") {
            if let Some(Value::Object(basic)) = device.remove("basic") {
                device.extend(basic);
            }
        }
    }
    quantities_of_slice(object);
}
