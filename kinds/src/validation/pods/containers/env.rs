//! What is refused of the variables of containers.

use api::field::Field;

use super::Volumes;
use crate::validation::Faults;

/// The faults of variables from files of volumes that hold none.
pub fn validate_file_key_volumes(_spec: &Field<'_>, _volumes: &Volumes<'_>, _faults: &mut Faults) {}
