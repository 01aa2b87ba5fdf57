//! Descriptions of defaulted objects (KV-30).
//!
//! For each kind with defaults, a function in a module of the same name as that of the defaulting
//! function describes objects on which defaulting changes nothing. A scan of a stored object uses
//! it to skip defaulting. Change both functions together; a test compares them on every recorded
//! body and on parts of them.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod autoscaling;
pub mod batch;
pub mod core;
pub mod discovery;
pub mod flowcontrol;
pub mod limits;
pub mod networking;
pub mod pods;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod workloads;

use api::completeness::Expected;

/// Describes an object whose spec, if present, is defaulted.
fn of(spec: Expected) -> Expected {
    Expected::default().below("spec", spec)
}

/// Describes objects in which only quantities have a canonical form.
pub fn quantities() -> Expected {
    Expected::default()
}

#[cfg(test)]
mod tests {
    use api::completeness::Completeness;

    use super::*;
    use crate::types::object_type;

    #[test]
    fn pods_have_no_field_that_their_type_lacks() {
        let of = object_type("core.v1.Pod");
        let (schema, id) = of.found().expect("a type");
        let made = Completeness::of(schema, id, &pods::pod(), pods::APART);
        assert!(made.is_ok(), "{made:?}");
    }
}
