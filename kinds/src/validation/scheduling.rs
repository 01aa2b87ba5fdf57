//! Validation of PriorityClasses.

use api::field::Field;
use api::object::Object;

use super::enums::require_one_of;
use api::error_list::ErrorList;

/// The highest priority of user-defined classes; higher ones are reserved for system classes.
const MAX_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The system classes and their priorities.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

/// Validates a PriorityClass.
pub fn validate_priorityclass(object: &Object, errors: &mut ErrorList) {
    let value = Field::of(object, "value");
    let name = object.name();
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(wrong) = system_class_error(object) {
            let metadata = Field::of(object, "metadata");
            errors.push(metadata.member("name").forbidden(format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use \
                 only. error: {wrong}"
            )));
        }
    } else if value.int().unwrap_or(0) > MAX_PRIORITY {
        errors.push(value.forbidden(format!(
            "maximum allowed value of a user defined priority is {MAX_PRIORITY}"
        )));
    }
    let policy = Field::of(object, "preemptionPolicy");
    if policy.is_set() {
        require_one_of(&policy, &["PreemptLowerPriority", "Never"], errors);
    }
}

/// Reports whether this is the name of a system class.
pub fn is_system_class(name: &str) -> bool {
    SYSTEM_CLASSES.iter().any(|(known, _)| *known == name)
}

/// Returns the reason why an object is not a valid system class.
fn system_class_error(object: &Object) -> Option<String> {
    let name = object.name();
    let Some((_, priority)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if Field::of(object, "value").int().unwrap_or(0) != *priority {
        return Some(format!("value of {name} PriorityClass must be {priority}"));
    }
    let is_default = Field::of(object, "globalDefault").is_true();
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// Validates an update of a PriorityClass. Only its description and `globalDefault` may change.
pub fn validate_priorityclass_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let value = Field::of(object, "value");
    let before = Field::of(stored, "value");
    if value.int().unwrap_or(0) != before.int().unwrap_or(0) {
        errors.push(value.forbidden("may not be changed in an update."));
    }
    let policy = Field::of(object, "preemptionPolicy");
    if policy.value() != Field::of(stored, "preemptionPolicy").value() {
        errors.push(policy.invalid("field is immutable"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::scheduling::priorityclass;
    use crate::recorded::{Functions, check};
    use crate::validation::node::{validate_runtimeclass, validate_runtimeclass_update};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../recorded/scheduling.json");
        check(cases, |path| match path.ends_with("/priorityclasses") {
            true => Functions {
                defaults: Some(priorityclass),
                create: validate_priorityclass,
                update: Some(validate_priorityclass_update),
            },
            false => Functions {
                defaults: None,
                create: validate_runtimeclass,
                update: Some(validate_runtimeclass_update),
            },
        });
    }
}
