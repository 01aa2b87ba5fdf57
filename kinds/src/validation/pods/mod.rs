//! What is refused of pods and their templates.

pub mod containers;
pub mod scheduling;
pub mod security;
pub mod update;
pub mod volumes;

use api::field::Field;

use super::Faults;

/// The faults of a pod's spec.
pub fn validate_pod_spec(_spec: &Field<'_>, _faults: &mut Faults) {}

/// The faults of a template: labels, annotations and spec.
pub fn validate_pod_template_spec(_template: &Field<'_>, _faults: &mut Faults) {}
