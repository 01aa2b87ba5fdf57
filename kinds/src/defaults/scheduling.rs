//! What is filled in of priority classes (API-257).

use api::object::Object;

use super::set_absent;

/// Fills in a priority class.
pub fn priorityclass(object: &mut Object) {
    set_absent(&mut object.0, "preemptionPolicy", "PreemptLowerPriority");
}
