//! What is filled in of APIs that other servers have.

use api::object::Object;

use super::{member, set_absent};

/// Fills in an API.
pub fn apiservice(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(service) = spec.and_then(|spec| member(spec, "service")) {
        set_absent(service, "port", 443);
    }
}
