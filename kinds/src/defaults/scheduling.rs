//! Defaults of PriorityClasses (API-257).

use api::object::Object;

use super::set_absent;

/// Sets the defaults of a PriorityClass.
pub fn priorityclass(object: &mut Object) {
    set_absent(&mut object.0, "preemptionPolicy", "PreemptLowerPriority");
}
