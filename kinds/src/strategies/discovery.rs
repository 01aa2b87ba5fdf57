//! EndpointSlices: `deprecatedTopology`, which only slices written as v1beta1 have.

use api::object::Object;
use serde_json::Value;

/// Drops `deprecatedTopology` from a new slice.
pub fn prepare_create(object: &mut Object) {
    let endpoints = object.0.get_mut("endpoints").and_then(Value::as_array_mut);
    let endpoints = endpoints.into_iter().flatten();
    for endpoint in endpoints.filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

/// Drops `deprecatedTopology` when the endpoints change.
pub fn prepare_update(object: &mut Object, stored: &Object) {
    if object.0.get("endpoints") != stored.0.get("endpoints") {
        prepare_create(object);
    }
}
