//! Defaults of pods and pod templates (http.md 7).

mod containers;
mod images;
pub mod resources;
mod volumes;

use api::object::Object;
use serde_json::{Map, Value, json};

use super::{Members, items, member, member_or_new, set_default};
use containers::{container, host_ports};
use resources::{pod_level_resources, requests_from_limits, resource_list, resource_requirements};
use volumes::volume;

/// Obsolete annotations of init containers, which are dropped.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Sets the defaults of a Pod.
pub fn pod(object: &mut Object) {
    let members = &mut object.0;
    drop_init_container_annotations(members);
    if let Some(spec) = member_or_new(members, "spec") {
        pod_spec(spec);
        // Only pods get 1 for a negative period; templates keep it.
        let grace = spec.get("terminationGracePeriodSeconds");
        if grace
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        for list in ["containers", "initContainers"] {
            items(spec, list).for_each(requests_from_limits);
        }
        pod_level_resources(spec);
        set_default(spec, "enableServiceLinks", true);
        if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
            for list in ["containers", "initContainers"] {
                items(spec, list).for_each(host_ports);
            }
        }
    }
    if let Some(status) = member(members, "status") {
        pod_status(status);
    }
}

/// Sets the defaults of a pod template (API-245).
pub fn pod_template_spec(members: &mut Members) {
    drop_init_container_annotations(members);
    if let Some(spec) = member_or_new(members, "spec") {
        pod_spec(spec);
    }
}

/// Sets the defaults of a pod spec, except those that only Pods have (API-245).
pub fn pod_spec(members: &mut Members) {
    mirror_service_account(members);
    set_default(members, "dnsPolicy", "ClusterFirst");
    set_default(members, "restartPolicy", "Always");
    set_default(members, "securityContext", Map::new());
    set_default(members, "terminationGracePeriodSeconds", 30);
    set_default(members, "schedulerName", "default-scheduler");
    items(members, "volumes").for_each(volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items(members, list).for_each(container);
    }
    resource_list(members, "overhead");
    resource_requirements(members, "resources");
}

/// Mirrors `serviceAccountName` and its deprecated alias `serviceAccount` (API-249).
fn mirror_service_account(members: &mut Members) {
    let is_text = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
    let name = members.get("serviceAccountName").filter(is_text);
    let name = name.or_else(|| members.get("serviceAccount").filter(is_text));
    if let Some(name) = name.cloned() {
        members.insert("serviceAccount".to_owned(), name.clone());
        members.insert("serviceAccountName".to_owned(), name);
    }
}

/// Mirrors `podIP` and the first of `podIPs`. `podIP` takes precedence.
fn mirror_address(members: &mut Members) {
    let is_text = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
    let first = items(members, "podIPs").next();
    let first = first.map(|first| first.get("ip").cloned().unwrap_or_default());
    match (members.get("podIP").filter(is_text).cloned(), first) {
        (Some(address), first) if first.as_ref() != Some(&address) => {
            members.insert("podIPs".to_owned(), json!([{ "ip": address }]));
        }
        (None, Some(Value::String(address))) => {
            members.insert("podIP".to_owned(), address.into());
        }
        _ => {}
    }
}

fn drop_init_container_annotations(members: &mut Members) {
    let Some(metadata) = member(members, "metadata") else {
        return;
    };
    let Some(annotations) = member(metadata, "annotations") else {
        return;
    };
    let before = annotations.len();
    annotations.retain(|key, _| !INIT_CONTAINER_ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
}

fn pod_status(members: &mut Members) {
    mirror_address(members);
    let lists = [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ];
    for list in lists {
        for status in items(members, list) {
            resource_list(status, "allocatedResources");
            resource_requirements(status, "resources");
        }
    }
    resource_list(members, "allocatedResources");
    resource_requirements(members, "resources");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{self, Functions};
    use crate::strategies::disabled_fields::testing::{fill_in_pod, fill_in_template};

    #[test]
    fn the_address_of_a_pod_is_the_first_of_its_addresses() {
        let list = |addresses: &[&str]| -> Value {
            addresses.iter().map(|ip| json!({ "ip": ip })).collect()
        };
        for (given, filled_in) in [
            (
                json!({ "podIP": "a" }),
                json!({ "podIP": "a", "podIPs": list(&["a"]) }),
            ),
            (
                json!({ "podIPs": list(&["a", "b"]) }),
                json!({ "podIP": "a", "podIPs": list(&["a", "b"]) }),
            ),
            (
                json!({ "podIP": "b", "podIPs": list(&["a", "b"]) }),
                json!({ "podIP": "b", "podIPs": list(&["b"]) }),
            ),
            (
                json!({ "podIP": "a", "podIPs": list(&["a", "b"]) }),
                json!({ "podIP": "a", "podIPs": list(&["a", "b"]) }),
            ),
            (
                json!({ "podIP": "", "podIPs": [] }),
                json!({ "podIP": "", "podIPs": [] }),
            ),
        ] {
            let mut status = given.as_object().expect("an object").clone();
            pod_status(&mut status);
            assert_eq!(Value::Object(status), filled_in);
        }
    }

    #[test]
    fn pods_are_filled_in_as_recorded() {
        let cases = include_str!("../../../recorded/pod_defaults.json");
        recorded::check(cases, |path| Functions {
            defaults: Some(match path.ends_with("/pods") {
                true => fill_in_pod,
                false => fill_in_template,
            }),
            create: |_, _| {},
            update: None,
        });
    }
}
