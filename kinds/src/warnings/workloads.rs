//! Warnings about kinds with a pod template.

use api::field::Field;
use api::names::dns_label;
use api::object::Object;
use api::warnings::Warnings;

use super::is_new_generation;
use super::pods::warn_of_template;
use super::storage::warn_of_claim;

/// Returns the warnings about a Deployment.
pub fn of_deployment(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        warn_of_template(&Field::of(object, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// Returns the warnings about a ReplicaSet.
pub fn of_replicaset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    of_deployment(object, stored)
}

/// Returns the warnings about a ReplicationController. On update, kube-apiserver examines the
/// template of the stored object.
pub fn of_replicationcontroller(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    warn_of_name(object, stored, &warnings);
    if is_new_generation(object, stored) {
        let of = stored.unwrap_or(object);
        warn_of_template(&Field::of(of, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// Returns the warnings about a DaemonSet.
pub fn of_daemonset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let path = ["spec", "template"];
    if stored.is_none_or(|stored| stored.at(&path) != object.at(&path)) {
        warn_of_template(&Field::of(object, "spec").member("template"), &warnings);
    }
    warnings.take()
}

/// Returns the warnings about a StatefulSet.
pub fn of_statefulset(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    if is_new_generation(object, stored) {
        warn_of_template(&spec.member("template"), &warnings);
    }
    for claim in spec.member("volumeClaimTemplates").items() {
        let value = claim.member("spec");
        // kube-apiserver has the Go name of the field in this path.
        let shown = match stored {
            None => claim,
            Some(_) => claim.member("Spec"),
        };
        if let Some(value) = value.value() {
            warn_of_claim(&shown.with_value(value), &warnings);
        }
    }
    let history = spec.member("revisionHistoryLimit");
    if history.int().is_some_and(|limit| limit < 0) {
        warnings.add(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a \
             value >= 0 is recommended",
        );
    }
    warnings.take()
}

/// Returns the warnings about a PodTemplate.
pub fn of_podtemplate(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if is_new_generation(object, stored) {
        warn_of_template(&Field::of(object, "template"), &warnings);
    }
    warnings.take()
}

/// Warns of the name of a new object if pod names made from it are not DNS labels.
pub(super) fn warn_of_name(object: &Object, stored: Option<&Object>, warnings: &Warnings) {
    let wrong = dns_label(object.name());
    if stored.is_none() && !wrong.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in \
             surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}
