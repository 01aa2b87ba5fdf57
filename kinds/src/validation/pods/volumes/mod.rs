//! Validation of the volumes of pods.

pub mod drivers;
pub mod files;
pub mod projected;

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::quantity::Quantity;

use super::PodKind;
use super::containers::Volumes;
use super::fields::validate_annotations;
use crate::validation::enums::require_one_of;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::selectors::validate_labels;
use crate::validation::storage::claims::validate_persistent_volume_claim_spec;
use api::error_list::ErrorList;

/// Validates the members of one type of volume.
type Rule = fn(&Field<'_>, &mut ErrorList);

/// All types of volumes in the order of validation: the member, its name in errors about a second
/// type, and the function for its members.
const TYPES: [(&str, &str, Rule); 30] = [
    ("emptyDir", "emptyDir", validate_empty_dir),
    ("hostPath", "hostPath", files::validate_host_path),
    ("gitRepo", "gitRepo", files::validate_git_repo),
    (
        "gcePersistentDisk",
        "gcePersistentDisk",
        drivers::validate_gce,
    ),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        drivers::validate_aws,
    ),
    ("secret", "secret", projected::validate_secret),
    ("nfs", "nfs", drivers::validate_nfs),
    ("iscsi", "iscsi", drivers::validate_iscsi),
    ("glusterfs", "glusterfs", drivers::validate_glusterfs),
    ("flocker", "flocker", drivers::validate_flocker),
    (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        validate_claim,
    ),
    ("rbd", "rbd", drivers::validate_rbd),
    ("cinder", "cinder", drivers::validate_cinder),
    ("cephfs", "cephFS", drivers::validate_cephfs),
    ("quobyte", "quobyte", drivers::validate_quobyte),
    // kube-apiserver has this misspelling.
    (
        "downwardAPI",
        "downwarAPI",
        projected::validate_downward_api,
    ),
    ("fc", "fc", drivers::validate_fc),
    ("flexVolume", "flexVolume", drivers::validate_flex_volume),
    ("configMap", "configMap", projected::validate_config_map),
    ("azureFile", "azureFile", drivers::validate_azure_file),
    ("vsphereVolume", "vsphereVolume", drivers::validate_vsphere),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        drivers::validate_photon,
    ),
    (
        "portworxVolume",
        "portworxVolume",
        drivers::validate_portworx,
    ),
    ("azureDisk", "azureDisk", drivers::validate_azure_disk),
    ("storageos", "storageos", drivers::validate_storageos),
    ("projected", "projected", projected::validate_projected),
    ("scaleIO", "scaleIO", drivers::validate_scale_io),
    ("csi", "csi", drivers::validate_csi),
    ("ephemeral", "ephemeral", validate_ephemeral),
    ("image", "image", validate_image),
];

/// Validates volumes. Returns those without errors.
pub fn validate_volumes<'v>(
    volumes: &Field<'v>,
    pod: PodKind<'_>,
    errors: &mut ErrorList,
) -> Volumes<'v> {
    let mut sound = Volumes::new();
    let claims = ephemeral_claims(volumes, pod);
    for (index, value) in volumes.list().iter().enumerate() {
        let volume = volumes.index(index);
        let name = volume.member("name");
        let text = value.get("name").and_then(serde_json::Value::as_str);
        let text = text.unwrap_or_default();
        let before = errors.reported();
        validate_volume_source(&volume, pod, errors);
        if require_text(&name, errors) {
            report(&name, names::dns_label(text), errors);
        }
        if sound.contains_key(text) {
            errors.push(name.duplicate());
        }
        if errors.reported() == before {
            sound.insert(text, value);
        }
        let claim = volume.member("persistentVolumeClaim");
        let claim_name = claim.member("claimName");
        if claims.contains(claim_name.text()) {
            errors.push(
                claim_name
                    .invalid("must not reference a PVC that gets created for an ephemeral volume"),
            );
        }
    }
    sound
}

/// Returns the names of the claims that ephemeral volumes will get, if the pod has a name.
fn ephemeral_claims(volumes: &Field<'_>, pod: PodKind<'_>) -> HashSet<String> {
    let Some(pod_name) = pod.name().filter(|name| !name.is_empty()) else {
        return HashSet::new();
    };
    let volumes = volumes.items();
    let ephemeral = volumes.filter(|volume| volume.member("ephemeral").is_set());
    ephemeral
        .map(|volume| format!("{pod_name}-{}", volume.member("name").text()))
        .collect()
}

fn validate_volume_source(volume: &Field<'_>, pod: PodKind<'_>, errors: &mut ErrorList) {
    let mut has_type = false;
    for (name, shown, rule) in TYPES {
        let source = volume.member(name);
        if !source.is_set() {
            continue;
        }
        if has_type {
            let member = volume.member(shown);
            errors.push(member.forbidden("may not specify more than 1 volume type"));
        } else {
            rule(&source, errors);
            validate_in_pod(volume, &source, name, pod, errors);
        }
        has_type = true;
        if name == "iscsi" {
            validate_iscsi_name(volume, &source, errors);
        }
    }
    if !has_type {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// Validates the rules that depend on the pod of a volume.
fn validate_in_pod(
    volume: &Field<'_>,
    source: &Field<'_>,
    name: &str,
    pod: PodKind<'_>,
    errors: &mut ErrorList,
) {
    let volume_name = volume.member("name");
    match name {
        "ephemeral" => {
            let pod_name = pod.name().unwrap_or_default();
            if pod_name.is_empty() || volume_name.text().is_empty() {
                return;
            }
            let claim = format!("{pod_name}-{}", volume_name.text());
            for wrong in names::dns_subdomain(&claim) {
                errors.push(volume_name.invalid(format!("PVC name \"{claim}\": {wrong}")));
            }
        }
        "image" => {
            let reference = source.member("reference");
            if pod.is_pod() {
                require_text(&reference, errors);
            }
            let policy = source.member("pullPolicy");
            require_one_of(&policy, &["Always", "IfNotPresent", "Never"], errors);
        }
        _ => {}
    }
}

/// Validates the length of volume name and portal, which are parts of the initiator name.
fn validate_iscsi_name(volume: &Field<'_>, source: &Field<'_>, errors: &mut ErrorList) {
    let portal = source.member("targetPortal");
    let name = volume.member("name");
    let length = name.text().len() + 1 + portal.text().len();
    if source.member("initiatorName").is_set() && length > 64 {
        errors.push(name.invalid_value(
            name.text(),
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
             iscsi.initiatorName is specified.",
        ));
    }
}

fn validate_empty_dir(source: &Field<'_>, errors: &mut ErrorList) {
    let limit = source.member("sizeLimit");
    let quantity: Option<Quantity> = limit.text().parse().ok();
    if quantity.is_some_and(|quantity| quantity.sign() < 0) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

fn validate_claim(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("claimName"), errors);
}

fn validate_ephemeral(source: &Field<'_>, errors: &mut ErrorList) {
    let template = source.member("volumeClaimTemplate");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    validate_template_metadata(&template.member("metadata"), errors);
    validate_persistent_volume_claim_spec(&template.member("spec"), errors);
}

/// Adds nothing: image volumes have rules only in their pod.
fn validate_image(_source: &Field<'_>, _errors: &mut ErrorList) {}

/// Fields of metadata that an embedded template must not set, in the order of their declaration.
const NOT_IN_TEMPLATES: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Validates the metadata of a claim template, which may have labels and annotations only.
pub fn validate_template_metadata(metadata: &Field<'_>, errors: &mut ErrorList) {
    validate_annotations(&metadata.member("annotations"), errors);
    validate_labels(&metadata.member("labels"), errors);
    for name in NOT_IN_TEMPLATES {
        let field = metadata.member(name);
        if field.is_set() {
            errors.push(field.forbidden("cannot be set"));
        }
    }
}
