//! What is refused of security contexts.

use api::field::Field;

use super::super::Faults;

/// The faults of the security context of a pod's spec.
pub fn validate_pod_security_context(_spec: &Field<'_>, _faults: &mut Faults) {}
