//! Validation of updates of pods.

use api::field::{Detail, Field};
use api::field_error::FieldError;
use api::keyed::Keyed;
use api::object::Object;
use api::text::quoting::go_quote;
use serde_json::{Map, Value};
use std::collections::HashSet;

use super::annotations::{MIRROR, validate_annotation_changes, validate_pod_annotations};
use super::containers::validate_image_padding;
use super::diff::json_difference;
use super::scheduling::validate_tolerations;
use super::{validate_deadline, validate_metadata_and_spec};
use crate::types::internal::{internal_json, internal_list_json};
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                    `spec.tolerations` (only additions to existing tolerations),\
                    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                    previously negative)";

/// The required terms of an affinity.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Validates an update of a pod.
pub fn validate_pod_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_metadata_and_spec(object, errors);
    validate_annotations(object, stored, errors);
    let spec = Field::of(object, "spec");
    let before = Field::of(stored, "spec");
    for list in ["containers", "initContainers"] {
        if !validate_images(&spec.member(list), &before.member(list), errors) {
            return;
        }
    }
    if !validate_deadline_change(&spec, &before, errors) {
        return;
    }
    validate_added_tolerations(&spec, &before, errors);
    validate_removed_gates(&spec, &before, errors);
    if spec.value() == before.value() {
        return;
    }
    let (Some(new), Some(old)) = (spec.value(), before.value()) else {
        return;
    };
    let mut masked = new.clone();
    if let (Some(masked), Some(old)) = (masked.as_object_mut(), old.as_object()) {
        mask_changeable(masked, old);
        if !before.member("schedulingGates").is_empty() {
            mask_gated(masked, &spec, &before, errors);
        }
    }
    if masked != *old {
        let old = internal_json("core.v1.PodSpec", Some(old));
        let new = internal_json("core.v1.PodSpec", Some(&masked));
        let difference = json_difference(&old, &new);
        errors.push(spec.forbidden(format!("{ONLY}\n{difference}")));
    }
}

/// Validates annotations and their update.
pub(super) fn validate_annotations(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let metadata = Field::of(object, "metadata");
    let given = metadata.member("annotations");
    let metadata_before = Field::of(stored, "metadata");
    let before = metadata_before.member("annotations");
    validate_annotation_changes(&given, &before, errors);
    validate_pod_annotations(&given, &Field::of(object, "spec"), errors);
}

/// Validates images, which may change. Returns whether the number of containers is unchanged.
fn validate_images(containers: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) -> bool {
    if containers.len() != before.len() {
        errors.push(containers.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in containers.items() {
        require_text(&container.member("image"), errors);
        validate_image_padding(&container, errors);
    }
    true
}

/// Validates that the active deadline is added or decreased. Returns whether it is valid.
fn validate_deadline_change(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) -> bool {
    let deadline = spec.member("activeDeadlineSeconds");
    let old = before.member("activeDeadlineSeconds").int();
    let Some(new) = deadline.int() else {
        if old.is_some() {
            let detail = "must not update from a positive integer to nil value";
            errors.push(deadline.invalid(detail));
        }
        return true;
    };
    if !validate_deadline(&deadline, 0, errors) {
        return false;
    }
    if old.is_some_and(|old| old < new) {
        errors.push(deadline.invalid("must be less than or equal to previous value"));
        return false;
    }
    true
}

/// Validates that tolerations are only added. In existing ones, only the seconds may change.
fn validate_added_tolerations(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    let tolerations = spec.member("tolerations");
    fn fixed(toleration: &Value) -> Vec<(&String, &Value)> {
        let members = toleration.as_object().into_iter().flatten();
        members
            .filter(|(name, _)| *name != "tolerationSeconds")
            .collect()
    }
    let kept: HashSet<Vec<(&String, &Value)>> = tolerations.list().iter().map(fixed).collect();
    for old in before.member("tolerations").list() {
        if !kept.contains(&fixed(old)) {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            return errors.push(tolerations.forbidden(detail));
        }
    }
    validate_tolerations(&tolerations, errors);
}

/// Validates that scheduling gates are only removed.
fn validate_removed_gates(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    let old = before.member("schedulingGates");
    let old: HashSet<&str> = old.items().map(|gate| gate.text_of("name")).collect();
    for gate in spec.member("schedulingGates").items() {
        let name = gate.member("name");
        if !old.contains(name.text()) {
            errors.push(name.forbidden(format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            )));
        }
    }
}

/// Resets a member to its stored value.
fn restore(members: &mut Map<String, Value>, old: &Map<String, Value>, name: &str) {
    match old.get(name) {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
}

/// Resets the fields that may change in every pod, so that a comparison finds other changes.
fn mask_changeable(spec: &mut Map<String, Value>, old: &Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        let new = spec.get_mut(list).and_then(Value::as_array_mut);
        let before = old.get(list).and_then(Value::as_array);
        for (new, before) in new.into_iter().flatten().zip(before.into_iter().flatten()) {
            if let (Some(new), Some(before)) = (new.as_object_mut(), before.as_object()) {
                restore(new, before, "image");
            }
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(spec, old, name);
    }
    let grace = "terminationGracePeriodSeconds";
    let was_negative = old
        .get(grace)
        .and_then(Value::as_i64)
        .is_some_and(|old| old < 0);
    if was_negative && spec.get(grace).and_then(Value::as_i64) == Some(1) {
        restore(spec, old, grace);
    }
}

/// Resets the node selection of a pod with scheduling gates, which may be narrowed.
fn mask_gated(
    masked: &mut Map<String, Value>,
    spec: &Field<'_>,
    before: &Field<'_>,
    errors: &mut ErrorList,
) {
    let selector = spec.member("nodeSelector");
    let old_selector = before.member("nodeSelector");
    let mut old_labels = old_selector.entries();
    if old_labels.any(|(key, old)| selector.key(key).value() != old.value()) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(selector.invalid(detail));
    }
    let affinity = spec.member("affinity");
    let old_affinity = before.member("affinity");
    let nodes = affinity.member("nodeAffinity");
    let old_nodes = old_affinity.member("nodeAffinity");
    let is_changed = nodes.value() != old_nodes.value();
    if is_changed {
        validate_narrowed_terms(&nodes, &old_nodes, errors);
    }
    if let Some(old) = before.value().and_then(Value::as_object) {
        restore(masked, old, "nodeSelector");
    }
    if is_changed {
        let of_nodes = old_nodes.value();
        mask_node_affinity(masked, old_affinity.is_set(), of_nodes);
    }
}

fn mask_node_affinity(masked: &mut Map<String, Value>, was_set: bool, old: Option<&Value>) {
    let Some(affinity) = masked.get_mut("affinity").and_then(Value::as_object_mut) else {
        if let Some(old) = old {
            let mut affinity = Map::new();
            affinity.insert("nodeAffinity".to_owned(), old.clone());
            masked.insert("affinity".to_owned(), affinity.into());
        }
        return;
    };
    match old {
        Some(old) => affinity.insert("nodeAffinity".to_owned(), old.clone()),
        None => affinity.remove("nodeAffinity"),
    };
    if affinity.is_empty() && !was_set {
        masked.remove("affinity");
    }
}

/// Validates that the number of terms is unchanged, and that each only gets more requirements.
fn validate_narrowed_terms(nodes: &Field<'_>, old_nodes: &Field<'_>, errors: &mut ErrorList) {
    let required = nodes.member(REQUIRED);
    let terms = required.member("nodeSelectorTerms");
    let old_required = old_nodes.member(REQUIRED);
    let old_terms = old_required.member("nodeSelectorTerms").list();
    if old_terms.is_empty() {
        return;
    }
    if old_terms.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(terms.invalid(detail).showing_json(|| match terms.is_set() {
            true => internal_list_json("core.v1.NodeSelectorTerm", terms.list()),
            false => "null".to_owned(),
        }));
        return;
    }
    for (term, old) in terms.items().zip(old_terms) {
        if !has_only_additions(&term, old) {
            let error = term.invalid("only additions are allowed (no mutations or deletions)");
            errors.push(error.showing_json(|| term.value().map(term_json).unwrap_or_default()));
        }
    }
}

fn term_json(term: &Value) -> String {
    internal_json("core.v1.NodeSelectorTerm", Some(term))
}

fn has_only_additions(term: &Field<'_>, old: &Value) -> bool {
    let old = Field::named("", Some(old));
    let lists = ["matchExpressions", "matchFields"];
    let was_empty = lists.iter().all(|list| old.member(list).is_empty());
    let is_empty = lists.iter().all(|list| term.member(list).is_empty());
    let begins_alike = |list: &&str| {
        let (new, old) = (term.member(list), old.member(list));
        new.list().starts_with(old.list())
    };
    // An empty term selects nothing, so adding requirements would widen it.
    (!was_empty || is_empty) && lists.iter().all(begins_alike)
}

/// Validates an update of a pod's ephemeral containers. The other fields are unchanged.
pub fn validate_pod_ephemeral_containers_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    if is_mirror(stored) {
        let detail = "static pods do not support ephemeral containers";
        errors.push(FieldError::forbidden("[]", detail));
        return;
    }
    validate_metadata_and_spec(object, errors);
    validate_annotations(object, stored, errors);
    let spec = Field::of(object, "spec");
    let containers = spec.member("ephemeralContainers");
    let before = Field::of(stored, "spec");
    let by_name = Keyed::by(containers.list(), |new| new.get("name"));
    for old in before.member("ephemeralContainers").list() {
        let name = old.get("name");
        let new = by_name.last(&name).copied();
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let what = || {
            format!(
                "existing ephemeral containers {} may not be",
                go_quote(name)
            )
        };
        match new {
            None => {
                errors.push(containers.forbidden(Detail::made(|| format!("{} removed\n", what()))))
            }
            Some(new) if new != old => errors.push(containers.forbidden(Detail::made(|| {
                let json = |value| internal_json("core.v1.EphemeralContainer", Some(value));
                let difference = json_difference(&json(old), &json(new));
                format!("{} changed\n{difference}", what())
            }))),
            Some(_) => {}
        }
    }
}

/// Reports whether a pod is a mirror pod.
pub(super) fn is_mirror(pod: &Object) -> bool {
    let metadata = Field::of(pod, "metadata");
    metadata.member("annotations").key(MIRROR).is_set()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::defaults;
    use crate::recorded::{self, Functions};

    /// Compares the answers to updates with recorded ones.
    pub fn check(cases: &str, update: fn(&Object, &Object, &mut ErrorList)) {
        recorded::check(cases, |_| Functions {
            defaults: Some(defaults::pods::pod),
            create: |_, _| {},
            update: Some(update),
        });
    }

    #[test]
    fn changes_of_pods_are_refused_as_recorded() {
        let cases = include_str!("../../../recorded/pod_update.json");
        check(cases, validate_pod_update);
    }

    #[test]
    fn changes_of_ephemeral_containers_are_refused_as_recorded() {
        let cases = include_str!("../../../recorded/pod_ephemeral_containers.json");
        check(cases, validate_pod_ephemeral_containers_update);
    }

    /// Answers of kube-apiserver 1.36. They are not in the recordings, because creating such pods
    /// takes several requests.
    #[test]
    fn ephemeral_containers_stay_as_they_are() {
        let pod = |containers: Value| {
            let pod = serde_json::json!({
                "metadata": {"name": "a"},
                "spec": {
                    "containers": [{"name": "a", "image": "i"}],
                    "ephemeralContainers": containers,
                },
            });
            let mut pod = Object::of(pod.as_object().expect("an object").clone());
            defaults::pods::pod(&mut pod);
            pod
        };
        let container = |name: &str, image: &str, tty: bool| match tty {
            true => serde_json::json!({"name": name, "image": image, "tty": true}),
            false => serde_json::json!({"name": name, "image": image}),
        };
        let (e, f) = (container("e", "i", false), container("f", "i", false));
        let stored = pod(vec![e.clone(), f.clone()].into());
        let errors = |containers: Vec<Value>| -> Vec<String> {
            let changed = pod(containers.into());
            let errors = ErrorList::of(|errors| {
                validate_pod_ephemeral_containers_update(&changed, &stored, errors)
            });
            errors.iter().map(FieldError::body).collect()
        };
        assert!(errors(vec![f.clone(), container("g", "i", false), e.clone()]).is_empty());
        let removed = "Forbidden: existing ephemeral containers \"e\" may not be removed\n";
        assert_eq!(errors(vec![f]), [removed]);
        let changed = "Forbidden: existing ephemeral containers \"f\" may not be changed\n\
                       @@ -1,6 +1,6 @@\n {\n  \"Name\": \"f\",\n- \"Image\": \"i\",\n\
                       + \"Image\": \"q\",\n  \"Command\": null,\n  \"Args\": null,\n  \
                       \"WorkingDir\": \"\",\n@@ -27,6 +27,6 @@\n  \"SecurityContext\": null,\n  \
                       \"Stdin\": false,\n  \"StdinOnce\": false,\n- \"TTY\": false,\n\
                       + \"TTY\": true,\n  \"TargetContainerName\": \"\"\n }\n";
        assert_eq!(errors(vec![e, container("f", "q", true)]), [changed]);
    }
}
