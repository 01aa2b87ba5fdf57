//! Validation of pods and pod templates.

pub mod added_labels;
mod annotations;
mod claims;
pub mod containers;
pub mod diff;
pub mod field_refs;
mod fields;
mod names;
mod os;
pub mod quality;
pub mod resize;
pub mod scheduling;
pub mod security;
pub mod status;
pub mod update;
pub mod volumes;

use api::field::Field;
use api::names::dns_subdomain;
use api::object::Object;

use super::selectors::validate_labels;
use crate::validation::enums::require_one_of;
use crate::validation::report;
use api::error_list::ErrorList;
use containers::Volumes;
use fields::validate_annotations;

/// The owner of a spec.
#[derive(Clone, Copy)]
pub enum PodKind<'p> {
    /// A pod with this name.
    Pod(&'p str),
    /// A template, whose pods have no names yet.
    Template,
}

impl<'p> PodKind<'p> {
    /// Reports whether it is a pod.
    pub fn is_pod(self) -> bool {
        self.name().is_some()
    }

    /// Returns the name of the pod.
    pub fn name(self) -> Option<&'p str> {
        match self {
            PodKind::Pod(name) => Some(name),
            PodKind::Template => None,
        }
    }
}

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Validates a new pod.
pub fn validate_pod(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    // If the labels would add too much, the selectors are incomplete. This error comes before
    // errors of the selectors.
    scheduling::validate_added_labels(object, errors);
    validate_metadata_and_spec(object, errors);
    let ephemeral = spec.member("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("cannot be set on create"));
    }
    let node = spec.member("nodeName");
    if !node.text().is_empty() && !spec.member("schedulingGates").is_empty() {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    let metadata = Field::of(object, "metadata");
    let given = metadata.member("annotations");
    annotations::validate_seccomp_match(&given, &spec, errors);
    annotations::validate_apparmor_match(&given, &spec, errors);
}

/// Validates the rules for new and for updated pods.
fn validate_metadata_and_spec(object: &Object, errors: &mut ErrorList) {
    let metadata = Field::of(object, "metadata");
    let spec = Field::of(object, "spec");
    annotations::validate_pod_annotations(&metadata.member("annotations"), &spec, errors);
    validate_pod_spec(&spec, PodKind::Pod(object.name()), errors);
    if spec.member("serviceAccountName").text().is_empty() {
        validate_no_tokens(&spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.member(list).items() {
            containers::validate_image_padding(&container, errors);
        }
    }
}

/// Validates that a pod without a service account has no projected tokens.
fn validate_no_tokens(spec: &Field<'_>, errors: &mut ErrorList) {
    for volume in spec.member("volumes").items() {
        let projected = volume.member("projected");
        for source in projected.member("sources").items() {
            let token = source.member("serviceAccountToken");
            if token.is_set() {
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(token.forbidden(detail));
            }
        }
    }
}

/// Validates a template's labels and annotations.
pub fn validate_template_metadata(template: &Field<'_>, errors: &mut ErrorList) {
    let metadata = template.member("metadata");
    // Kubernetes reports members of the metadata at the template.
    let labels = metadata.member("labels");
    if let Some(value) = labels.value() {
        validate_labels(&template.member("labels").with_value(value), errors);
    }
    let annotations = metadata.member("annotations");
    let given = of_template(template, &annotations);
    validate_annotations(&given, errors);
    annotations::validate_pod_annotations(&given, &template.member("spec"), errors);
}

/// Returns the annotations of a template with the path that Kubernetes reports.
fn of_template<'t>(template: &'t Field<'_>, annotations: &'t Field<'_>) -> Field<'t> {
    let reported = template.member("annotations");
    match annotations.value() {
        Some(value) => reported.with_value(value),
        None => reported,
    }
}

/// Validates a pod template: labels, annotations and spec.
pub fn validate_pod_template_spec(template: &Field<'_>, errors: &mut ErrorList) {
    validate_template_metadata(template, errors);
    let spec = template.member("spec");
    let metadata = template.member("metadata");
    let annotations = metadata.member("annotations");
    let given = of_template(template, &annotations);
    validate_pod_spec(&spec, PodKind::Template, errors);
    annotations::validate_seccomp_match(&given, &spec, errors);
    annotations::validate_apparmor_match(&given, &spec, errors);
    let ephemeral = spec.member("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Validates a pod spec.
pub fn validate_pod_spec(spec: &Field<'_>, pod: PodKind<'_>, errors: &mut ErrorList) {
    let grace = spec.member("terminationGracePeriodSeconds");
    if !grace.is_set() {
        errors.push(grace.required(""));
    }
    let volumes = spec.member("volumes");
    let volumes = volumes::validate_volumes(&volumes, pod, errors);
    claims::validate_resource_claims(&spec.member("resourceClaims"), errors);
    validate_all_containers(spec, &volumes, errors);
    containers::resources::validate_pod_resources(spec, errors);
    validate_host_ports(spec, pod, errors);
    require_one_of(&spec.member("restartPolicy"), &RESTART_POLICIES, errors);
    names::validate_dns_policy(&spec.member("dnsPolicy"), errors);
    validate_labels(&spec.member("nodeSelector"), errors);
    security::validate_pod_security_context(spec, errors);
    scheduling::validate_affinity(&spec.member("affinity"), errors);
    names::validate_dns_config(spec, errors);
    for gate in spec.member("readinessGates").items() {
        let of = gate.member("conditionType");
        report(&of, api::names::qualified_name(of.text()), errors);
    }
    scheduling::validate_scheduling_gates(&spec.member("schedulingGates"), errors);
    let constraints = spec.member("topologySpreadConstraints");
    scheduling::validate_topology_spread_constraints(&constraints, errors);
    os::validate_host_process(spec, errors);
    os::validate_host_users(spec, errors);
    names::validate_names(spec, errors);
    validate_deadline(&spec.member("activeDeadlineSeconds"), 1, errors);
    names::validate_host_names(spec, errors);
    scheduling::validate_tolerations(&spec.member("tolerations"), errors);
    names::validate_host_aliases(&spec.member("hostAliases"), errors);
    validate_classes(spec, errors);
    let overhead = spec.member("overhead");
    containers::resources::validate_overhead(&overhead, &overhead, errors);
    os::validate_os(spec, errors);
    containers::env::validate_file_key_volumes(spec, &volumes, errors);
}

fn validate_all_containers(spec: &Field<'_>, volumes: &Volumes<'_>, errors: &mut ErrorList) {
    containers::validate_containers(spec, volumes, errors);
    containers::validate_init_containers(spec, volumes, errors);
    containers::validate_ephemeral_containers(spec, volumes, errors);
}

/// Validates priority class, runtime class and preemption policy.
fn validate_classes(spec: &Field<'_>, errors: &mut ErrorList) {
    let priority = spec.member("priorityClassName");
    if !priority.text().is_empty() {
        report(&priority, dns_subdomain(priority.text()), errors);
    }
    let runtime = spec.member("runtimeClassName");
    if runtime.is_set() {
        report(&runtime, dns_subdomain(runtime.text()), errors);
    }
    let preemption = spec.member("preemptionPolicy");
    if preemption.is_set() {
        require_one_of(&preemption, &["PreemptLowerPriority", "Never"], errors);
    }
}

/// Validates the active deadline in seconds, if any. Returns whether it is valid.
fn validate_deadline(deadline: &Field<'_>, least: i64, errors: &mut ErrorList) -> bool {
    let most = i64::from(i32::MAX);
    let is_wrong = deadline.int().is_some_and(|n| n < least || n > most);
    if is_wrong {
        let detail = format!("must be between {least} and {most}, inclusive");
        errors.push(deadline.invalid(detail));
    }
    !is_wrong
}

/// Validates that host ports equal the container ports on the host network.
fn validate_host_ports(spec: &Field<'_>, pod: PodKind<'_>, errors: &mut ErrorList) {
    if !spec.member("hostNetwork").is_true() {
        return;
    }
    for container in spec.member("containers").items() {
        for port in container.member("ports").items() {
            let of_host = port.member("hostPort");
            let number = of_host.int().unwrap_or_default();
            let of_container = port.member("containerPort").int().unwrap_or_default();
            if (pod.is_pod() || number != 0) && number != of_container {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(of_host.invalid_value(number, detail));
            }
        }
    }
}

/// Calls `visit` for all containers of a pod, in kube-apiserver's order.
fn visit_containers(spec: &Field<'_>, visit: &mut dyn FnMut(&Field<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.member(list).items() {
            visit(&container);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults;
    use crate::recorded::{self, Functions};

    fn fill_in_template(object: &mut Object) {
        let template = defaults::member(&mut object.0, "template");
        defaults::pods::pod_template_spec(template.expect("a template"));
    }

    fn validate_template(object: &Object, errors: &mut ErrorList) {
        validate_pod_template_spec(&Field::of(object, "template"), errors);
    }

    #[test]
    fn pods_are_refused_as_recorded() {
        let cases = include_str!("../../../recorded/pod_spec.json");
        recorded::check(cases, |path| match path.ends_with("/pods") {
            true => Functions {
                defaults: Some(defaults::pods::pod),
                create: validate_pod,
                update: None,
            },
            false => Functions {
                defaults: Some(fill_in_template),
                create: validate_template,
                update: None,
            },
        });
    }
}
