//! Descriptions of defaulted PriorityClasses.

use api::completeness::Expected;

/// Describes a defaulted PriorityClass.
pub fn priorityclass() -> Expected {
    Expected::default().given(&["preemptionPolicy"])
}
