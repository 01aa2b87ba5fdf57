//! Validation of PersistentVolumes.

use std::borrow::Cow;

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::sources::{validate_mount_options, validate_sources};
use super::{VOLUME_MODES, validate_access_modes, validate_positive};
use crate::types::internal::{internal_json, invalid_struct};
use crate::validation::enums::validate_one_of;
use crate::validation::pods::diff::json_difference;
use crate::validation::pods::scheduling::validate_node_selector;
use crate::validation::report;
use api::error_list::ErrorList;

const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
/// Renamed node labels.
const RENAMED_LABELS: [(&str, &str); 5] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
];

/// Validates a PersistentVolume.
pub fn validate_persistentvolume(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_persistent_volume_spec(&spec, errors);
    validate_mount_options(&Field::of(object, "metadata"), &spec, errors);
}

/// Validates an update of a PersistentVolume. Errors of its spec are reported twice, as in
/// Kubernetes.
pub fn validate_persistentvolume_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_persistentvolume(object, errors);
    let spec = Field::of(object, "spec");
    validate_persistent_volume_spec(&spec, errors);
    let before = Field::of(stored, "spec");
    validate_same_source(&spec, &before, errors);
    let mode = spec.member("volumeMode");
    if mode.value() != before.member("volumeMode").value() {
        let place = Field::named("volumeMode", mode.value());
        errors.push(place.invalid("field is immutable"));
    }
    let affinity = spec.member("nodeAffinity");
    let old_affinity = before.member("nodeAffinity");
    if old_affinity.is_set() && !is_same_affinity(&affinity, &old_affinity) {
        let place = Field::named("nodeAffinity", affinity.value());
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(invalid_struct(&place, "core.v1.VolumeNodeAffinity", detail));
    }
    let class = spec.member("volumeAttributesClassName");
    if !class.is_set() && before.member("volumeAttributesClassName").is_set() {
        errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
}

/// Validates that the source of a volume is unchanged, except that a secret for expansion may be
/// added.
fn validate_same_source(spec: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    let type_name = "core.v1.PersistentVolumeSource";
    let mut new: Option<Cow<'_, Value>> = spec.value().map(Cow::Borrowed);
    let (csi, old_csi) = (spec.member("csi"), before.member("csi"));
    let name = "controllerExpandSecretRef";
    let is_added = csi.member(name).is_set() && !old_csi.member(name).is_set();
    if is_added && old_csi.is_set() {
        let value = new.as_mut().map(Cow::to_mut);
        let csi = value.and_then(|spec| spec.get_mut("csi"));
        if let Some(members) = csi.and_then(Value::as_object_mut) {
            members.remove(name);
        }
    }
    let new = internal_json(type_name, new.as_deref());
    let old = internal_json(type_name, before.value());
    if new != old {
        let difference = json_difference(&old, &new);
        let detail =
            format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(spec.member("persistentvolumesource").forbidden(detail));
    }
}

/// Reports whether two affinities are the same, except for renamed labels.
fn is_same_affinity(new: &Field<'_>, old: &Field<'_>) -> bool {
    if new.value() == old.value() {
        return true;
    }
    let mut old = old.value().cloned().unwrap_or_default();
    let terms = old.pointer_mut("/required/nodeSelectorTerms");
    for term in terms.and_then(Value::as_array_mut).into_iter().flatten() {
        let expressions = term
            .get_mut("matchExpressions")
            .and_then(Value::as_array_mut);
        for key in expressions
            .into_iter()
            .flatten()
            .filter_map(|expression| expression.get_mut("key"))
        {
            let renamed = RENAMED_LABELS.iter().find(|(beta, _)| key == beta);
            if let Some((_, name)) = renamed {
                *key = (*name).into();
            }
        }
    }
    new.value() == Some(&old)
}

/// Validates the spec of a PersistentVolume.
pub fn validate_persistent_volume_spec(spec: &Field<'_>, errors: &mut ErrorList) {
    let modes = spec.member("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    validate_access_modes(&modes, errors);
    validate_capacity(&spec.member("capacity"), errors);
    let policy = spec.member("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        validate_one_of(&policy, &POLICIES, errors);
    }
    validate_affinity(&spec.member("nodeAffinity"), errors);
    validate_sources(spec, errors);
    let host_path = spec.member("hostPath");
    let path = host_path.member("path");
    if host_path.is_set() && policy.text() == "Recycle" && is_root(path.text()) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(policy.forbidden(detail));
    }
    let class = spec.member("storageClassName");
    if !class.text().is_empty() {
        report(&class, names::dns_subdomain(class.text()), errors);
    }
    validate_one_of(&spec.member("volumeMode"), &VOLUME_MODES, errors);
    validate_attributes_class(spec, errors);
}

/// Validates the inline volume spec of a VolumeAttachment.
pub fn validate_inline_volume_spec(spec: &Field<'_>, errors: &mut ErrorList) {
    let (claim, capacity) = (spec.member("claimRef"), spec.member("capacity"));
    if claim.is_set() {
        errors.push(claim.forbidden(NOT_INLINE));
    }
    if !capacity.is_empty() {
        errors.push(capacity.forbidden(NOT_INLINE));
    }
    let csi = spec.member("csi");
    if !csi.is_set() {
        errors.push(csi.required("has to be specified in the context of inline volumes"));
    }
    let modes = spec.member("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    validate_access_modes(&modes, errors);
    let policy = spec.member("persistentVolumeReclaimPolicy");
    if !matches!(policy.text(), "" | "Retain") {
        errors.push(policy.forbidden("may only be Retain in the context of inline volumes"));
    }
    let affinity = spec.member("nodeAffinity");
    if affinity.is_set() {
        errors.push(affinity.forbidden(NOT_INLINE));
    }
    validate_sources(spec, errors);
    let class = spec.member("storageClassName");
    if !class.text().is_empty() {
        errors.push(class.forbidden(NOT_INLINE));
    }
    let mode = spec.member("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        errors.push(mode.forbidden(
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        ));
    }
}

fn validate_capacity(capacity: &Field<'_>, errors: &mut ErrorList) {
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    let storage = capacity.key("storage");
    if !storage.is_set() || capacity.len() > 1 {
        let shown = capacity.value().unwrap_or(&Value::Null);
        let error = capacity.not_supported(&["storage"]);
        errors.push(error.showing_json(|| api::text::quoting::beginning(shown)));
    }
    for (_, quantity) in capacity.entries() {
        super::validate_basic(&quantity, errors);
        validate_positive(&quantity, errors);
    }
}

fn validate_affinity(affinity: &Field<'_>, errors: &mut ErrorList) {
    let required = affinity.member("required");
    if required.is_set() {
        validate_node_selector(&required, errors);
    } else if affinity.is_set() {
        errors.push(required.required("must specify required node constraints"));
    }
}

fn validate_attributes_class(spec: &Field<'_>, errors: &mut ErrorList) {
    let class = spec.member("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.text().is_empty() {
        errors.push(class.required("an empty string is disallowed"));
    } else {
        report(&class, names::dns_subdomain(class.text()), errors);
    }
    let csi = spec.member("csi");
    if !csi.is_set() {
        errors.push(csi.required("has to be specified when using volumeAttributesClassName"));
    }
}

/// Reports whether a path leads to the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}
