//! What is refused of persistent volumes.

use std::borrow::Cow;

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::sources::{validate_mount_options, validate_sources};
use super::{VOLUME_MODES, validate_access_modes, validate_positive};
use crate::validation::internal::{internal_json, invalid_struct};
use crate::validation::pods::diff::json_difference;
use crate::validation::pods::scheduling::validate_node_selector;
use crate::validation::{Faults, formats, texts};

const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
/// Labels of nodes that were renamed.
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

/// The faults of a persistent volume.
pub fn validate_persistentvolume(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_persistent_volume_spec(&spec, &mut faults);
    validate_mount_options(&Field::of(object, "metadata"), &spec, &mut faults);
    faults
}

/// The faults of a change to a persistent volume. Its own faults are reported twice.
pub fn validate_persistentvolume_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_persistentvolume(object);
    let spec = Field::of(object, "spec");
    validate_persistent_volume_spec(&spec, &mut faults);
    let before = Field::of(stored, "spec");
    validate_same_source(&spec, &before, &mut faults);
    let mode = spec.member("volumeMode");
    if mode.value() != before.member("volumeMode").value() {
        let place = Field::named("volumeMode", mode.value());
        faults.push(place.invalid("field is immutable"));
    }
    let affinity = spec.member("nodeAffinity");
    let old_affinity = before.member("nodeAffinity");
    if old_affinity.is_set() && !is_same_affinity(&affinity, &old_affinity) {
        let place = Field::named("nodeAffinity", affinity.value());
        let detail = "field is immutable, except for updating from beta label to GA";
        faults.push(invalid_struct(&place, "core.v1.VolumeNodeAffinity", detail));
    }
    let class = spec.member("volumeAttributesClassName");
    if !class.is_set() && before.member("volumeAttributesClassName").is_set() {
        faults.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
    faults
}

/// The faults of a change to the status of a persistent volume: there are none.
pub fn validate_persistentvolume_status_update(_object: &Object, _stored: &Object) -> Faults {
    Faults::new()
}

/// The source of a volume stays; only the secret for its growth may be added.
fn validate_same_source(spec: &Field<'_>, before: &Field<'_>, faults: &mut Faults) {
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
        faults.push(spec.member("persistentvolumesource").forbidden(detail));
    }
}

/// Whether two affinities are the same, but for labels that were renamed.
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

/// The faults of the spec of a persistent volume.
pub fn validate_persistent_volume_spec(spec: &Field<'_>, faults: &mut Faults) {
    let modes = spec.member("accessModes");
    if modes.is_empty() {
        faults.push(modes.required(""));
    }
    validate_access_modes(&modes, faults);
    validate_capacity(&spec.member("capacity"), faults);
    let policy = spec.member("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        texts::validate_one_of(&policy, &POLICIES, faults);
    }
    validate_affinity(&spec.member("nodeAffinity"), faults);
    validate_sources(spec, faults);
    let host_path = spec.member("hostPath");
    let path = host_path.member("path");
    if host_path.is_set() && policy.text() == "Recycle" && is_root(path.text()) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        faults.push(policy.forbidden(detail));
    }
    let class = spec.member("storageClassName");
    if !class.text().is_empty() {
        formats::report(&class, names::dns_subdomain(class.text()), faults);
    }
    texts::validate_one_of(&spec.member("volumeMode"), &VOLUME_MODES, faults);
    validate_attributes_class(spec, faults);
}

/// The faults of the spec of a volume that is attached without an object of its own.
pub fn validate_inline_volume_spec(spec: &Field<'_>, faults: &mut Faults) {
    let (claim, capacity) = (spec.member("claimRef"), spec.member("capacity"));
    if claim.is_set() {
        faults.push(claim.forbidden(NOT_INLINE));
    }
    if !capacity.is_empty() {
        faults.push(capacity.forbidden(NOT_INLINE));
    }
    let csi = spec.member("csi");
    if !csi.is_set() {
        faults.push(csi.required("has to be specified in the context of inline volumes"));
    }
    let modes = spec.member("accessModes");
    if modes.is_empty() {
        faults.push(modes.required(""));
    }
    validate_access_modes(&modes, faults);
    let policy = spec.member("persistentVolumeReclaimPolicy");
    if !matches!(policy.text(), "" | "Retain") {
        faults.push(policy.forbidden("may only be Retain in the context of inline volumes"));
    }
    let affinity = spec.member("nodeAffinity");
    if affinity.is_set() {
        faults.push(affinity.forbidden(NOT_INLINE));
    }
    validate_sources(spec, faults);
    let class = spec.member("storageClassName");
    if !class.text().is_empty() {
        faults.push(class.forbidden(NOT_INLINE));
    }
    let mode = spec.member("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        faults.push(mode.forbidden(
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        ));
    }
}

fn validate_capacity(capacity: &Field<'_>, faults: &mut Faults) {
    if capacity.is_empty() {
        faults.push(capacity.required(""));
    }
    let storage = capacity.key("storage");
    if !storage.is_set() || capacity.len() > 1 {
        let shown = capacity.value().map(Value::to_string);
        let mut fault = FieldError::not_supported(capacity.path(), "", &["storage"]);
        fault.value = shown.unwrap_or_else(|| "null".to_owned());
        faults.push(fault);
    }
    for (_, quantity) in capacity.entries() {
        super::validate_basic(&quantity, faults);
        validate_positive(&quantity, faults);
    }
}

fn validate_affinity(affinity: &Field<'_>, faults: &mut Faults) {
    let required = affinity.member("required");
    if required.is_set() {
        validate_node_selector(&required, faults);
    } else if affinity.is_set() {
        faults.push(required.required("must specify required node constraints"));
    }
}

fn validate_attributes_class(spec: &Field<'_>, faults: &mut Faults) {
    let class = spec.member("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.text().is_empty() {
        faults.push(class.required("an empty string is disallowed"));
    } else {
        formats::report(&class, names::dns_subdomain(class.text()), faults);
    }
    let csi = spec.member("csi");
    if !csi.is_set() {
        faults.push(csi.required("has to be specified when using volumeAttributesClassName"));
    }
}

/// Whether a path leads to the root.
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
