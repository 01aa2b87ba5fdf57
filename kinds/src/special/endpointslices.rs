//! EndpointSlices: a member that is only there for old versions.

use api::object::Object;
use serde_json::Value;

/// New slices have no `deprecatedTopology`.
pub fn prepare_create(object: &mut Object) {
    let endpoints = object.0.get_mut("endpoints").and_then(Value::as_array_mut);
    let endpoints = endpoints.into_iter().flatten();
    for endpoint in endpoints.filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

/// Slices that have one keep it until their endpoints change.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    if object.0.get("endpoints") != stored.0.get("endpoints") {
        prepare_create(object);
    }
}
