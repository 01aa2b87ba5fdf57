//! Validation of the subresource `resize` of pods.

use api::field::Field;
use api::field_error::FieldError;
use api::object::Object;
use serde_json::{Map, Value};

use super::quality::quality_of_service;
use super::update::is_mirror;
use super::validate_metadata_and_spec;
use api::error_list::ErrorList;

const ONLY: &str = "only cpu and memory resources are mutable";

/// Validates an in-place resize of a pod.
pub fn validate_pod_resize(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let before = Field::of(stored, "spec");
    if is_mirror(stored) {
        errors.push(FieldError::forbidden("[]", "static pods cannot be resized"));
        return;
    }
    if before.member("os").member("name").text() == "windows" {
        errors.push(FieldError::forbidden(
            "[]",
            "windows pods cannot be resized",
        ));
        return;
    }
    let reported = errors.reported();
    validate_metadata_and_spec(object, errors);
    let status = Field::of(object, "status");
    let old_status = Field::of(stored, "status");
    let old_class = match old_status.member("qosClass").text() {
        "" => quality_of_service(stored),
        class => class,
    };
    if old_class != quality_of_service(object) {
        let class = status.member("qosClass").text();
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(spec.invalid_value(class, detail));
    }
    if !is_supported(&old_status) {
        errors.push(spec.forbidden("Pod running on node without support for resize"));
    }
    let mut masked = spec.value().cloned().unwrap_or_default();
    validate_pod_level(&spec, &before, &mut masked, errors);
    if !validate_order(&spec, &before, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let (containers, old) = (spec.member(list), before.member(list));
        for (container, old) in containers.items().zip(old.items()) {
            let resources = container.member("resources");
            validate_none_removed(&resources, &old.member("resources"), "resource", errors);
        }
    }
    mask_containers(&spec, &before, &mut masked, errors);
    if errors.reported() == reported && Some(&masked) != before.value() {
        errors.push(spec.forbidden(ONLY));
    }
}

/// Reports whether the pod's node supports resizing, as far as its status shows.
fn is_supported(status: &Field<'_>) -> bool {
    let statuses = status.member("containerStatuses");
    let running = statuses
        .items()
        .find(|of| of.member("state").member("running").is_set());
    running.is_none_or(|of| of.member("resources").is_set())
}

/// Reports whether a pod has pod-level resources.
fn has_resources(spec: &Field<'_>) -> bool {
    let resources = spec.member("resources");
    let lists = ["requests", "limits"];
    lists.iter().any(|list| !resources.member(list).is_empty())
}

fn validate_pod_level(
    spec: &Field<'_>,
    before: &Field<'_>,
    masked: &mut Value,
    errors: &mut ErrorList,
) {
    if !has_resources(spec) && !has_resources(before) {
        return;
    }
    let resources = spec.member("resources");
    let old = before.member("resources");
    if old.is_set() && !resources.is_set() {
        return errors.push(resources.forbidden("pod-level resources cannot be removed"));
    }
    if old.is_set() {
        validate_none_removed(&resources, &old, "pod-level resource", errors);
    }
    let Some(masked) = masked.as_object_mut() else {
        return;
    };
    if let Some(resources) = masked.get_mut("resources").and_then(Value::as_object_mut) {
        mask_resources(resources, old.value());
        if resources.is_empty() && !old.is_set() {
            masked.remove("resources");
        }
    }
    if masked.get("resources") != old.value() {
        errors.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
}

/// Validates that no request or limit is removed.
fn validate_none_removed(new: &Field<'_>, old: &Field<'_>, what: &str, errors: &mut ErrorList) {
    for list in ["requests", "limits"] {
        let (amounts, old) = (new.member(list), old.member(list));
        if old.entries().any(|(name, _)| !amounts.key(name).is_set()) {
            errors.push(amounts.forbidden(format!("{what} {list} cannot be removed")));
        }
    }
}

/// Validates that containers keep their names and their order. Returns whether they do.
fn validate_order(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) -> bool {
    let mut is_kept = true;
    for list in ["containers", "initContainers"] {
        let (containers, old) = (spec.member(list), before.member(list));
        if containers.len() != old.len() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.push(containers.forbidden(detail));
            is_kept = false;
            continue;
        }
        for (container, old) in containers.items().zip(old.items()) {
            let name = container.member("name");
            if name.text() != old.member("name").text() {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.push(name.forbidden(detail));
                is_kept = false;
            }
        }
    }
    is_kept
}

/// Resets cpu and memory of all containers to their stored quantities, so that a comparison finds
/// other changes.
fn mask_containers(
    spec: &Field<'_>,
    before: &Field<'_>,
    masked: &mut Value,
    errors: &mut ErrorList,
) {
    for list in ["containers", "initContainers"] {
        let containers = spec.member(list);
        let items = masked.get_mut(list).and_then(Value::as_array_mut);
        let olds = before.member(list).list();
        let items = items.into_iter().flatten().zip(olds).enumerate();
        for (index, (item, old)) in items {
            let is_changed = item != old;
            if let Some(item) = item.as_object_mut() {
                mask_container(item, old);
            }
            let container = containers.index(index);
            if item != old {
                errors.push(match list {
                    "containers" => spec.forbidden(ONLY),
                    _ => container.forbidden(
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    ),
                });
            }
            let is_init =
                list == "initContainers" && container.member("restartPolicy").text() != "Always";
            if is_changed && is_init {
                validate_no_restart(&container, errors);
            }
        }
    }
}

/// Validates that no init container needs a restart to be resized.
fn validate_no_restart(container: &Field<'_>, errors: &mut ErrorList) {
    for policy in container.member("resizePolicy").items() {
        if policy.member("restartPolicy").text() == "RestartContainer" {
            errors.push(container.forbidden(
                "non-sidecar init containers with a resize policy of RestartContainer cannot be \
                 resized",
            ));
        }
    }
}

fn mask_container(container: &mut Map<String, Value>, old: &Value) {
    let old = old.get("resources");
    let slot = container
        .entry("resources")
        .or_insert_with(|| Map::new().into());
    if let Some(resources) = slot.as_object_mut() {
        mask_resources(resources, old);
        // As in Kubernetes, a container without claims may get some, but one with claims cannot be
        // resized at all.
        resources.remove("claims");
    }
    if slot.as_object().is_some_and(Map::is_empty) && old.is_none() {
        container.remove("resources");
    }
}

/// Resets cpu and memory to their stored quantities.
fn mask_resources(resources: &mut Map<String, Value>, old: Option<&Value>) {
    for list in ["requests", "limits"] {
        let old = old.and_then(|old| old.get(list));
        let slot = resources.entry(list).or_insert_with(|| Map::new().into());
        if let Some(amounts) = slot.as_object_mut() {
            for name in ["cpu", "memory"] {
                match old.and_then(|old| old.get(name)) {
                    Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
                    None => amounts.remove(name),
                };
            }
        }
        if slot.as_object().is_some_and(Map::is_empty) && old.is_none() {
            resources.remove(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::update::tests::check;
    use super::*;

    #[test]
    fn changes_of_resources_are_refused_as_recorded() {
        let cases = include_str!("../../../recorded/pod_resize.json");
        check(cases, validate_pod_resize);
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn containers_get_claims_where_they_had_none() {
        let pod = |resources: Value| {
            let container = json!({"name": "a", "image": "i", "resources": resources});
            let pod = json!({"metadata": {"name": "a"}, "spec": {
                "resourceClaims": [{"name": "x", "resourceClaimName": "x"}],
                "containers": [container],
            }});
            let mut pod = Object::of(pod.as_object().expect("an object").clone());
            crate::defaults::pods::pod(&mut pod);
            pod
        };
        let change = |old: Value, new: Value| -> Vec<String> {
            let errors = ErrorList::of(|errors| validate_pod_resize(&pod(new), &pod(old), errors));
            errors.iter().map(ToString::to_string).collect()
        };
        let bare = json!({"requests": {"cpu": "1"}});
        let with = |name: &str| json!({"requests": {"cpu": "1"}, "claims": [{"name": name}]});
        assert!(change(bare.clone(), with("x")).is_empty());
        let unknown = "spec.containers[0].resources.claims[0]: Not found: \"z\": must be one of \
                       the names in pod.spec.resourceClaims: x";
        assert_eq!(change(bare, with("z")), [unknown]);
        let refused = format!("spec: Forbidden: {ONLY}");
        let more = json!({"requests": {"cpu": "2"}, "claims": [{"name": "x"}]});
        assert_eq!(change(with("x"), more), [refused]);
    }

    /// Answers of kube-apiserver 1.36. They are not in the recordings, because creating such pods
    /// takes several requests.
    #[test]
    fn a_resize_needs_the_support_of_the_node() {
        let pod = |resources: Value, running: Value| {
            let container = json!({"name": "a", "image": "i", "resources": resources});
            let pod = json!({
                "metadata": {"name": "a"},
                "spec": {"containers": [container]},
                "status": {"containerStatuses": [running]},
            });
            let mut pod = Object::of(pod.as_object().expect("an object").clone());
            crate::defaults::pods::pod(&mut pod);
            pod
        };
        let change = |running: Value| -> Vec<String> {
            let old = pod(json!({"requests": {"cpu": "1"}}), running.clone());
            let new = pod(json!({"requests": {"cpu": "2"}}), running);
            let errors = ErrorList::of(|errors| validate_pod_resize(&new, &old, errors));
            errors.iter().map(ToString::to_string).collect()
        };
        let without = json!({"name": "a", "state": {"running": {}}});
        let refused = "spec: Forbidden: Pod running on node without support for resize";
        assert_eq!(change(without), [refused]);
        let with = json!({"name": "a", "state": {"running": {}}, "resources": {}});
        assert!(change(with).is_empty());
        let waiting = json!({"name": "a", "state": {"waiting": {}}});
        assert!(change(waiting).is_empty());
    }
}
