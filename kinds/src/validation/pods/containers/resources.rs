//! What is refused of the resources of containers and of whole pods.

use api::field::Field;

use crate::validation::Faults;

/// The faults of the resources of a whole pod.
pub fn validate_pod_resources(_spec: &Field<'_>, _faults: &mut Faults) {}
