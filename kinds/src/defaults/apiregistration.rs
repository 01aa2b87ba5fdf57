//! Defaults of APIServices.

use api::object::Object;

use super::{member, set_absent};

/// Sets the defaults of an APIService.
pub fn apiservice(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    if let Some(service) = spec.and_then(|spec| member(spec, "service")) {
        set_absent(service, "port", 443);
    }
}
