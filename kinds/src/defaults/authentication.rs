//! Defaults of `authentication.k8s.io`.

use api::object::Object;

use super::{member_or_new, set_absent};

/// Sets the defaults of a TokenRequest (API-226).
pub fn tokenrequest(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_absent(spec, "expirationSeconds", 3600);
    }
}
