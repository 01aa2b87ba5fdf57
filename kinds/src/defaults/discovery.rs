//! Defaults of EndpointSlices (API-252).

use api::object::Object;
use jiff::Timestamp;

use super::{items, set_absent};

/// Sets the defaults of an EndpointSlice, and drops `deprecatedTopology`, which only v1beta1 wrote.
pub fn endpointslice(object: &mut Object) {
    for endpoint in items(&mut object.0, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
    slice_ports(object);
}

/// Sets the defaults of an EndpointSlice read from storage. Reads drop nothing, so
/// `deprecatedTopology` stays (KV-30).
pub fn stored_endpointslice(object: &mut Object, _: Timestamp) {
    slice_ports(object);
}

fn slice_ports(object: &mut Object) {
    for port in items(&mut object.0, "ports") {
        set_absent(port, "name", "");
        set_absent(port, "protocol", "TCP");
    }
}
