//! Warnings about pods and pod templates.

mod containers;
mod volumes;

use std::collections::HashSet;

use api::field::Field;
use api::names::dns_label;
use api::object::Object;
use api::warnings::Warnings;

use super::addresses::warn_of_address;
use super::nodes::{reason_against, warn_of_key, warn_of_term};
use super::{quoted, warn, warn_of_annotation, warn_of_fraction};
use crate::strategies::pods::profiles_of_annotations;

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// The warning about annotations with seccomp profiles.
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
/// The warning about annotations with AppArmor profiles.
const APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Annotations without any effect.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Returns the warnings about a new pod. Updates get none, since most come from controllers and
/// kubelets.
pub fn of_pod(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if stored.is_some() {
        return Vec::new();
    }
    let wrong = dns_label(object.name());
    if !wrong.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising \
             behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    let (metadata, spec) = (Field::of(object, "metadata"), Field::of(object, "spec"));
    warn_of_spec(&metadata, &spec, false, &warnings);
    warnings.take()
}

/// Returns the warnings about a new pod that depend on its profile annotations, before these become
/// fields.
pub fn before(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let metadata = Field::of(object, "metadata");
    for container in profiles_of_annotations(object) {
        let key = format!("{APP_ARMOR_PREFIX}{container}");
        warn_of_annotation(&metadata, &key, APP_ARMOR, &warnings);
    }
    warnings.take()
}

/// Returns the warnings about the status of a pod.
pub fn of_pod_status(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let status = Field::of(object, "status");
    for list in ["podIPs", "hostIPs"] {
        for address in status.member(list).items() {
            warn_of_address(&address.member("ip"), &warnings);
        }
    }
    warnings.take()
}

/// Warns of a pod template.
pub(super) fn warn_of_template(template: &Field<'_>, warnings: &Warnings) {
    let (metadata, spec) = (template.member("metadata"), template.member("spec"));
    warn_of_spec(&metadata, &spec, true, warnings);
}

fn warn_of_spec(metadata: &Field<'_>, spec: &Field<'_>, is_template: bool, warnings: &Warnings) {
    warn_of_node_labels(spec, warnings);
    for (key, text) in OLD_ANNOTATIONS {
        warn_of_annotation(metadata, key, text, warnings);
    }
    volumes::warn_of_volumes(&spec.member("volumes"), warnings);
    warn_of_host_aliases(&spec.member("hostAliases"), warnings);
    warn_of_pull_secrets(&spec.member("imagePullSecrets"), warnings);
    for resource in ["memory", "ephemeral-storage"] {
        warn_of_fraction(&spec.member("overhead").key(resource), warnings);
    }
    let context = spec.member("securityContext");
    if !context.member("seccompProfile").is_set() {
        let key = "seccomp.security.alpha.kubernetes.io/pod";
        warn_of_annotation(metadata, key, SECCOMP, warnings);
    }
    let needs_app_armor = is_template && !context.member("appArmorProfile").is_set();
    for_containers(spec, |container| {
        let own = container.member("securityContext");
        let name = container.member("name").text();
        if !own.member("seccompProfile").is_set() {
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            warn_of_annotation(metadata, &key, SECCOMP, warnings);
        }
        if needs_app_armor && !own.member("appArmorProfile").is_set() {
            let key = format!("{APP_ARMOR_PREFIX}{name}");
            warn_of_annotation(metadata, &key, APP_ARMOR, warnings);
        }
        containers::warn_of_container(container, warnings);
    });
    containers::warn_of_ports(spec, warnings);
    containers::warn_of_port_names(spec, warnings);
    let grace = spec.member("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warn(&grace, text, warnings);
    }
    warn_of_pod_affinity(&spec.member("affinity"), warnings);
}

/// Calls `rule` for each container, in kube-apiserver's order.
fn for_containers(spec: &Field<'_>, mut rule: impl FnMut(&Field<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        spec.member(list)
            .items()
            .for_each(|container| rule(&container));
    }
}

/// Warns of deprecated node labels, and of topology spread constraints that select no pods.
fn warn_of_node_labels(spec: &Field<'_>, warnings: &Warnings) {
    let selector = spec.member("nodeSelector");
    for (label, _) in selector.entries() {
        if let Some(reason) = reason_against(label) {
            warn(&selector.key(label), reason, warnings);
        }
    }
    let affinity = spec.member("affinity");
    let affinity = affinity.member("nodeAffinity");
    let required = affinity.member("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.member("nodeSelectorTerms").items() {
        warn_of_term(&term, false, warnings);
    }
    let preferred = affinity.member("preferredDuringSchedulingIgnoredDuringExecution");
    for weighted in preferred.items() {
        warn_of_term(&weighted.member("preference"), true, warnings);
    }
    for constraint in spec.member("topologySpreadConstraints").items() {
        warn_of_key(&constraint.member("topologyKey"), warnings);
        warn_of_no_selector(&constraint, warnings);
    }
}

fn warn_of_no_selector(of: &Field<'_>, warnings: &Warnings) {
    let selector = of.member("labelSelector");
    if !selector.is_set() {
        warn(&selector, NO_SELECTOR, warnings);
    }
}

/// Warns of affinity terms that select no pods.
fn warn_of_pod_affinity(affinity: &Field<'_>, warnings: &Warnings) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.member(kind);
        let required = affinity.member("requiredDuringSchedulingIgnoredDuringExecution");
        for term in required.items() {
            warn_of_no_selector(&term, warnings);
        }
        let preferred = affinity.member("preferredDuringSchedulingIgnoredDuringExecution");
        for weighted in preferred.items() {
            warn_of_no_selector(&weighted.member("podAffinityTerm"), warnings);
        }
    }
}

/// Warns of addresses with several entries, and of addresses that are not in canonical form.
fn warn_of_host_aliases(aliases: &Field<'_>, warnings: &Warnings) {
    let mut seen = HashSet::new();
    for alias in aliases.items() {
        let address = alias.member("ip");
        if !seen.insert(address.text().to_owned()) {
            let text = format!("duplicate ip {}", quoted(address.text()));
            warn(&address, text, warnings);
        }
        warn_of_address(&address, warnings);
    }
}

/// Warns of duplicate pull secrets, then of those without a name.
fn warn_of_pull_secrets(secrets: &Field<'_>, warnings: &Warnings) {
    let mut seen = HashSet::new();
    for secret in secrets.items() {
        let name = secret.member("name");
        if !seen.insert(name.text().to_owned()) {
            warn(
                &name,
                format!("duplicate name {}", quoted(name.text())),
                warnings,
            );
        }
    }
    for secret in secrets.items() {
        let name = secret.member("name");
        if name.text().is_empty() {
            warn(&name, "invalid empty name \"\"", warnings);
        }
    }
}
