//! What is refused of classes of priorities and of runtimes.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;

use super::pods::containers::resources::validate_overhead;
use super::pods::scheduling::validate_tolerations;
use super::selectors::validate_labels;
use super::{internal, texts};
use api::error_list::ErrorList;

/// Larger priorities are those of the system.
const MAX_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The classes of the system with their priorities.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

/// Adds the errors of a class of priorities.
pub fn validate_priorityclass(object: &Object, errors: &mut ErrorList) {
    let value = Field::of(object, "value");
    let name = object.name();
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(wrong) = system_class_fault(object) {
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
        texts::require_one_of(&policy, &["PreemptLowerPriority", "Never"], errors);
    }
}

/// Whether this is the name of a class of the system.
pub fn is_system_class(name: &str) -> bool {
    SYSTEM_CLASSES.iter().any(|(known, _)| *known == name)
}

/// Why an object is no class of the system.
fn system_class_fault(object: &Object) -> Option<String> {
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

/// Adds the errors of a change to a class of priorities: only its description and whether it is the
/// default may change.
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

/// Adds the errors of a class of runtimes.
pub fn validate_runtimeclass(object: &Object, errors: &mut ErrorList) {
    let handler = Field::of(object, "handler");
    texts::require_valid(&handler, names::dns_label, errors);
    let overhead = Field::of(object, "overhead");
    validate_overhead(&overhead, &overhead.member("podFixed"), errors);
    let scheduling = Field::of(object, "scheduling");
    validate_labels(&scheduling.member("nodeSelector"), errors);
    let tolerations = scheduling.member("tolerations");
    validate_tolerations(&tolerations, errors);
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(of_scheduler(&toleration)) {
            let json = || internal::internal_json("core.v1.Toleration", toleration.value());
            errors.push(toleration.duplicate().showing_json(json));
        }
    }
}

/// What tells a toleration from others for the scheduler. It does not matter how long it holds.
fn of_scheduler(toleration: &Field<'_>) -> [String; 4] {
    ["key", "effect", "operator", "value"].map(|name| toleration.member(name).text().to_owned())
}

/// Adds the errors of a change to a class of runtimes: its handler stays.
pub fn validate_runtimeclass_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_runtimeclass(object, errors);
    let handler = Field::of(object, "handler");
    if handler.text() != Field::of(stored, "handler").text() {
        errors.push(handler.invalid_value(handler.text(), "field is immutable"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::scheduling::priorityclass;
    use crate::recorded::{Functions, check};

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
