//! Validation of updates of a Job's pod template.

use api::field::Field;
use api::object::Object;
use serde_json::{Map, Value};

use super::status::has_condition;
use crate::types::internal::invalid_struct;
use crate::validation::immutable::{IMMUTABLE, is_same};
use api::error_list::ErrorList;

/// The scheduling directives, which may change while a Job is suspended.
const DIRECTIVES: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];

/// Validates that the template is unchanged. While a Job is suspended and has no pods, its
/// scheduling directives, the resources of its containers and its metadata may change.
pub(super) fn validate_template_update(
    stored: &Object,
    spec: &Field<'_>,
    old: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (template, old_template) = (spec.member("template"), old.member("template"));
    if !is_paused(stored) {
        if !is_same(template.value(), old_template.value()) {
            errors.push(invalid_struct(
                &template,
                "core.v1.PodTemplateSpec",
                IMMUTABLE,
            ));
        }
        return;
    }
    let (pod, old_pod) = (template.member("spec"), old_template.member("spec"));
    let mut allowed = old_pod.value().cloned().unwrap_or_default();
    if let (Some(allowed), Some(changed)) = (
        allowed.as_object_mut(),
        pod.value().and_then(Value::as_object),
    ) {
        take_over(allowed, changed);
    }
    if !is_same(pod.value(), Some(&allowed)) {
        errors.push(invalid_struct(&pod, "core.v1.PodSpec", IMMUTABLE));
    }
}

/// Reports whether a Job is suspended and has no pods.
fn is_paused(stored: &Object) -> bool {
    let is_suspended = stored.at(&["spec", "suspend"]) == Some(&Value::Bool(true));
    let status = Field::of(stored, "status");
    let has_stopped = !status.member("startTime").is_set() || has_condition(&status, "Suspended");
    is_suspended && has_stopped && status.member("active").int().unwrap_or_default() == 0
}

/// Copies the fields of a pod that may change.
fn take_over(allowed: &mut Map<String, Value>, changed: &Map<String, Value>) {
    for name in DIRECTIVES {
        copy(allowed, changed, name);
    }
    take_over_node_affinity(allowed, changed);
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(changed)) = changed.get(list) else {
            continue;
        };
        let Some(Value::Array(containers)) = allowed.get_mut(list) else {
            continue;
        };
        if containers.len() != changed.len() {
            continue;
        }
        for (container, changed) in containers.iter_mut().zip(changed) {
            if let (Some(container), Some(changed)) =
                (container.as_object_mut(), changed.as_object())
                && container.get("name") == changed.get("name")
            {
                copy(container, changed, "resources");
            }
        }
    }
}

fn copy(to: &mut Map<String, Value>, from: &Map<String, Value>, name: &str) {
    match from.get(name) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

/// Copies the node affinity. An affinity without any other member may be added or removed.
fn take_over_node_affinity(allowed: &mut Map<String, Value>, changed: &Map<String, Value>) {
    let new = changed.get("affinity").and_then(Value::as_object);
    let mut affinity = match allowed.remove("affinity") {
        Some(Value::Object(affinity)) => affinity,
        _ => Map::new(),
    };
    match new {
        Some(new) => copy(&mut affinity, new, "nodeAffinity"),
        None => drop(affinity.remove("nodeAffinity")),
    }
    if new.is_some() || !affinity.is_empty() {
        allowed.insert("affinity".to_owned(), affinity.into());
    }
}
