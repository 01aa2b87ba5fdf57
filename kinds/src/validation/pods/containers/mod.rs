//! Validation of containers, init containers and ephemeral containers.

pub mod env;
mod mounts;
mod ports;
mod probes;
pub mod resources;
mod restart;

use std::collections::{BTreeSet, HashMap, HashSet};

use api::field::{Field, LazyError};
use api::field_error::FieldErrorKind;
use api::names;
use serde_json::Value;

use super::security::validate_security_context;
use crate::validation::enums::require_one_of;
use crate::validation::report;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

/// The valid volumes of a pod by name.
pub type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// The properties of the pod that containers are validated against.
struct Pod<'p> {
    volumes: &'p Volumes<'p>,
    /// The names of its resource claims.
    claims: BTreeSet<&'p str>,
    restart_policy: &'p str,
    grace_seconds: Option<i64>,
    /// Whether it uses the user namespace of its host.
    has_host_users: bool,
}

impl<'p> Pod<'p> {
    fn of(spec: &'p Field<'p>, volumes: &'p Volumes<'p>) -> Pod<'p> {
        let claims = spec.member("resourceClaims").list();
        let claims = claims
            .iter()
            .filter_map(|claim| claim.get("name")?.as_str())
            .filter(|name| !name.is_empty());
        Pod {
            volumes,
            claims: claims.collect(),
            restart_policy: spec.member("restartPolicy").text(),
            grace_seconds: spec.member("terminationGracePeriodSeconds").int(),
            has_host_users: spec.member("hostUsers").bool() != Some(false),
        }
    }
}

/// Validates the containers of a pod spec.
pub fn validate_containers(spec: &Field<'_>, volumes: &Volumes<'_>, errors: &mut ErrorList) {
    let containers = spec.member("containers");
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let pod = Pod::of(spec, volumes);
    let mut names = HashSet::new();
    for container in containers.items() {
        validate_common(&container, &pod, errors);
        let name = container.member("name");
        if !names.insert(name_of(&container)) {
            errors.push(duplicate(&name));
        }
        probes::validate_lifecycle(&container.member("lifecycle"), pod.grace_seconds, errors);
        probes::validate_probes(&container, errors);
        restart::validate_restart_policy(&container, errors);
    }
    let mut host_ports = HashSet::new();
    for container in containers.items() {
        ports::validate_host_ports(&container, &mut host_ports, errors);
    }
}

/// Validates the init containers of a pod spec.
pub fn validate_init_containers(spec: &Field<'_>, volumes: &Volumes<'_>, errors: &mut ErrorList) {
    let containers = spec.member("initContainers");
    let regular = spec.member("containers");
    let mut names: HashSet<&str> = names_of(&regular).collect();
    let pod = Pod::of(spec, volumes);
    for container in containers.items() {
        validate_common(&container, &pod, errors);
        restart::validate_init_restart_policy(&container, errors);
        let name = name_of(&container);
        if names.contains(name) {
            errors.push(duplicate(&container.member("name")));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Init containers run one after the other, so each is checked for host ports alone. As in
        // Kubernetes, its errors have the path of the first one.
        let first = containers.index(0);
        let first = match container.value() {
            Some(value) => first.with_value(value),
            None => first,
        };
        ports::validate_host_ports(&first, &mut HashSet::new(), errors);
        if container.member("restartPolicy").text() == "Always" {
            let lifecycle = container.member("lifecycle");
            probes::validate_lifecycle(&lifecycle, pod.grace_seconds, errors);
            probes::validate_probes(&container, errors);
        } else {
            validate_run_once(&container, errors);
        }
    }
}

/// Validates that an init container that is not a sidecar has none of a sidecar's fields.
fn validate_run_once(container: &Field<'_>, errors: &mut ErrorList) {
    for name in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        let forbidden = container.member(name);
        if forbidden.is_set() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(forbidden.forbidden(detail));
        }
    }
    for policy in container.member("resizePolicy").items() {
        let restarts = policy.member("restartPolicy");
        if restarts.text() == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.push(restarts.invalid(detail));
        }
    }
}

/// The fields that ephemeral containers must not have.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates the ephemeral containers of a pod spec.
pub fn validate_ephemeral_containers(
    spec: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut ErrorList,
) {
    let containers = spec.member("ephemeralContainers");
    if containers.is_empty() {
        return;
    }
    let (regular, init) = (spec.member("containers"), spec.member("initContainers"));
    let others: HashSet<&str> = names_of(&regular).chain(names_of(&init)).collect();
    let mut names = others.clone();
    let pod = Pod::of(spec, volumes);
    for container in containers.items() {
        validate_common(&container, &pod, errors);
        validate_image_padding(&container, errors);
        let name = container.member("name");
        if !names.insert(name_of(&container)) {
            errors.push(duplicate(&name));
        }
        let target = container.member("targetContainerName");
        if !target.text().is_empty() && !others.contains(target.text()) {
            errors.push(target.not_found());
        }
        validate_ephemeral(&container, errors);
    }
}

/// Validates that an ephemeral container has none of these fields.
fn validate_ephemeral(container: &Field<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    for name in NOT_EPHEMERAL {
        let member = container.member(name);
        // An empty struct counts as absent here.
        let is_there = match name {
            "resources" => !member.is_empty(),
            _ => member.is_set(),
        };
        if is_there {
            errors.push(member.forbidden(DETAIL));
        }
    }
    for mount in container.member("volumeMounts").items() {
        for name in ["subPath", "subPathExpr"] {
            let path = mount.member(name);
            if !path.text().is_empty() {
                errors.push(path.forbidden(DETAIL));
            }
        }
    }
}

/// Validates that the image of a pod's container has no white space around it. Templates are not
/// checked.
pub fn validate_image_padding(container: &Field<'_>, errors: &mut ErrorList) {
    let image = container.member("image");
    if image.text().trim().len() != image.text().len() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

/// Validates the rules for containers of all kinds.
fn validate_common(container: &Field<'_>, pod: &Pod<'_>, errors: &mut ErrorList) {
    let name = container.member("name");
    if require_text(&name, errors) {
        report(&name, names::dns_label(name.text()), errors);
    }
    require_text(&container.member("image"), errors);
    let policy = container.member("terminationMessagePolicy");
    require_one_of(&policy, &["File", "FallbackToLogsOnError"], errors);
    ports::validate_ports(&container.member("ports"), errors);
    env::validate_env(&container.member("env"), errors);
    env::validate_env_from(&container.member("envFrom"), errors);
    mounts::validate_volume_mounts(container, pod.volumes, errors);
    mounts::validate_volume_devices(container, pod.volumes, errors);
    let policy = container.member("imagePullPolicy");
    require_one_of(&policy, &["Always", "IfNotPresent", "Never"], errors);
    let resources = container.member("resources");
    resources::validate_container_resources(&resources, &pod.claims, errors);
    restart::validate_resize_policy(container, pod.restart_policy, errors);
    validate_security_context(
        &container.member("securityContext"),
        pod.has_host_users,
        errors,
    );
}

fn names_of<'f>(containers: &'f Field<'f>) -> impl Iterator<Item = &'f str> {
    containers.items().map(|container| name_of(&container))
}

/// Returns the name of a container.
fn name_of<'v>(container: &Field<'v>) -> &'v str {
    let name = container.value().and_then(|value| value.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// Returns the error of a duplicate text, which may be empty.
fn duplicate<'f>(field: &Field<'f>) -> LazyError<'f> {
    field.fault_value(FieldErrorKind::Duplicate, field.text(), "")
}

/// Returns the error of a text that refers to nothing. It may be empty.
fn not_found<'f>(field: &Field<'f>) -> LazyError<'f> {
    field.fault_value(FieldErrorKind::NotFound, field.text(), "")
}

#[cfg(test)]
mod tests {
    use api::object::Object;

    use super::*;
    use crate::recorded::{self, Functions};
    use crate::strategies::disabled_fields::testing::{fill_in_pod, fill_in_template};
    use crate::validation::pods::{validate_pod, validate_pod_template_spec};

    fn validate_template(object: &Object, errors: &mut ErrorList) {
        validate_pod_template_spec(&Field::of(object, "template"), errors);
    }

    #[test]
    fn containers_are_refused_as_recorded() {
        let cases = include_str!("../../../../recorded/containers.json");
        recorded::check(cases, |path| {
            let is_pod = path.ends_with("/pods");
            Functions {
                defaults: Some(if is_pod {
                    fill_in_pod
                } else {
                    fill_in_template
                }),
                create: if is_pod {
                    validate_pod
                } else {
                    validate_template
                },
                update: None,
            }
        });
    }
}
