//! Warnings about volumes, claims and the kinds of `storage.k8s.io`.

use api::field::Field;
use api::object::Object;

use super::nodes::{reason_against, warn_of_key, warn_of_term};
use super::{STORAGE_CLASS, Warnings, warn, warn_of_annotation, warn_of_fraction};

const OLD_STORAGE_CLASS: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";

/// Deprecated volume types, their names in warnings, and the warnings.
const OLD_TYPES: [(&str, &str, &str); 6] = [
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// Returns the warnings about a PersistentVolume.
pub fn of_persistentvolume(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let (metadata, spec) = (Field::of(object, "metadata"), Field::of(object, "spec"));
    warn_of_annotation(&metadata, STORAGE_CLASS, OLD_STORAGE_CLASS, &warnings);
    let options = "volume.beta.kubernetes.io/mount-options";
    let text = "deprecated since v1.31; use \"mountOptions\" attribute instead";
    warn_of_annotation(&metadata, options, text, &warnings);
    let policy = spec.member("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach \
                    is to use dynamic provisioning.";
        warn(&policy, text, &warnings);
    }
    let affinity = spec.member("nodeAffinity");
    let required = affinity.member("required");
    for term in required.member("nodeSelectorTerms").items() {
        warn_of_term(&term, false, &warnings);
    }
    for (name, shown, text) in OLD_TYPES {
        if spec.member(name).is_set() {
            warn(&spec.member(shown), text, &warnings);
        }
    }
    warnings.take()
}

/// Returns the warnings about a PersistentVolumeClaim.
pub fn of_persistentvolumeclaim(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let metadata = Field::of(object, "metadata");
    warn_of_annotation(&metadata, STORAGE_CLASS, OLD_STORAGE_CLASS, &warnings);
    warn_of_claim(&Field::of(object, "spec"), &warnings);
    warnings.take()
}

/// Warns of fractional bytes in the size of a claim.
pub(super) fn warn_of_claim(spec: &Field<'_>, warnings: &Warnings) {
    let resources = spec.member("resources");
    for list in ["requests", "limits"] {
        warn_of_fraction(&resources.member(list).key("storage"), warnings);
    }
}

/// Returns the warnings about a StorageClass.
pub fn of_storageclass(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    for topology in Field::of(object, "allowedTopologies").items() {
        for expression in topology.member("matchLabelExpressions").items() {
            let key = expression.member("key");
            if let Some(reason) = reason_against(key.text()) {
                warn(&key, reason, &warnings);
            }
        }
    }
    warnings.take()
}

/// Returns the warnings about a CSIStorageCapacity.
pub fn of_csistoragecapacity(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let topology = Field::of(object, "nodeTopology");
    for expression in topology.member("matchExpressions").items() {
        warn_of_key(&expression.member("key"), &warnings);
    }
    let labels = topology.member("matchLabels");
    for (label, _) in labels.entries() {
        if let Some(reason) = reason_against(label) {
            warn(&labels.member(label), reason, &warnings);
        }
    }
    warnings.take()
}

/// Returns the warnings about a CSIDriver whose new token requests may expose tokens in logs.
pub fn of_csidriver(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let path = ["spec", "tokenRequests"];
    let spec = Field::of(object, "spec");
    let requests = spec.member("tokenRequests");
    let is_new = stored.is_none_or(|stored| stored.at(&path) != requests.value());
    let place = spec.member("serviceAccountTokenInSecrets");
    if requests.is_empty() || place.is_set() || !is_new {
        return Vec::new();
    }
    vec![format!(
        "{} is unset; if supported by this CSI driver, set to true to prevent possible logging of \
         tokens in volume attributes",
        place.path()
    )]
}
