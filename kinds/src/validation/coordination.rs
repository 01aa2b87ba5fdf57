//! Validation of Leases.

use api::field::Field;
use api::object::Object;

use super::numbers::validate_nonnegative;
use api::error_list::ErrorList;

/// Validates a Lease.
pub fn validate_lease(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let duration = spec.member("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    validate_nonnegative(&spec.member("leaseTransitions"), errors);
}

/// Validates an update of a Lease.
pub fn validate_lease_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_lease(object, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(include_str!("../../recorded/leases.json"), |_| Functions {
            defaults: Some(|object| {
                crate::strategies::disabled_fields::drop_of_lease(object, None);
            }),
            create: validate_lease,
            update: Some(validate_lease_update),
        });
    }
}
