//! What is refused of changes to a Job's template.

use api::field::Field;
use api::object::Object;
use serde_json::{Map, Value};

use super::status::has_condition;
use crate::validation::counts::{IMMUTABLE, is_same};
use crate::validation::internal::invalid_struct;
use api::error_list::ErrorList;

/// What may change of the pods of a suspended Job: where they may run.
const DIRECTIVES: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];

/// The template of a Job never changes, but for some fields while it is suspended and has no pods:
/// where they may run, what their containers need, and the metadata.
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

/// Whether a Job is suspended, and has no pods.
fn is_paused(stored: &Object) -> bool {
    let is_suspended = stored.at(&["spec", "suspend"]) == Some(&Value::Bool(true));
    let status = Field::of(stored, "status");
    let has_stopped = !status.member("startTime").is_set() || has_condition(&status, "Suspended");
    is_suspended && has_stopped && status.member("active").int().unwrap_or_default() == 0
}

/// Takes over what may change of a pod.
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

/// Nodes may be chosen anew; an affinity without anything else may come and go.
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
