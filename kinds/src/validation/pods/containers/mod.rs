//! What is refused of containers, init containers and ephemeral containers.

pub mod env;
pub mod resources;

use std::collections::HashMap;

use api::field::Field;
use serde_json::Value;

use crate::validation::Faults;

/// The volumes of a pod that have no fault, by their names.
pub type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// The faults of the containers of a pod's spec.
pub fn validate_containers(_spec: &Field<'_>, _volumes: &Volumes<'_>, _faults: &mut Faults) {}

/// The faults of the init containers of a pod's spec.
pub fn validate_init_containers(_spec: &Field<'_>, _volumes: &Volumes<'_>, _faults: &mut Faults) {}

/// The faults of the ephemeral containers of a pod's spec.
pub fn validate_ephemeral_containers(
    _spec: &Field<'_>,
    _volumes: &Volumes<'_>,
    _faults: &mut Faults,
) {
}
