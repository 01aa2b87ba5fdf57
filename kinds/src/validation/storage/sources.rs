//! Validation of the sources of PersistentVolumes. Most rules are those of volumes of pods.

use api::field::Field;
use api::names;

use crate::validation::pods::volumes::{drivers, files};
use crate::validation::report;
use crate::validation::required::{require_text, require_valid};
use api::error_list::ErrorList;

type Rule = fn(&Field<'_>, &mut ErrorList);

/// All types of sources in the order of validation: the member, its name in errors about a second
/// one, and the function for its members.
const KINDS: [(&str, &str, Rule); 22] = [
    ("hostPath", "hostPath", files::validate_host_path),
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
    ("glusterfs", "glusterfs", validate_glusterfs),
    ("flocker", "flocker", drivers::validate_flocker),
    ("nfs", "nfs", drivers::validate_nfs),
    ("rbd", "rbd", drivers::validate_rbd),
    ("quobyte", "quobyte", drivers::validate_quobyte),
    ("cephfs", "cephFS", drivers::validate_cephfs),
    ("iscsi", "iscsi", validate_iscsi),
    ("cinder", "cinder", validate_cinder),
    ("fc", "fc", drivers::validate_fc),
    // Kubernetes does not check whether this is a second one.
    ("flexVolume", "", drivers::validate_flex_volume),
    ("azureFile", "azureFile", validate_azure_file),
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
    ("scaleIO", "scaleIO", drivers::validate_scale_io),
    ("local", "local", validate_local),
    ("storageos", "storageos", validate_storageos),
    ("csi", "csi", validate_csi),
];

/// Validates the source of a volume: exactly one.
pub fn validate_sources(spec: &Field<'_>, errors: &mut ErrorList) {
    let mut is_found = false;
    for (name, second, rule) in KINDS {
        let source = spec.member(name);
        if !source.is_set() {
            continue;
        }
        if is_found && !second.is_empty() {
            let place = spec.member(second);
            errors.push(place.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        is_found = true;
        rule(&source, errors);
        if name == "local" && !spec.member("nodeAffinity").is_set() {
            let affinity = spec.member("nodeAffinity");
            errors.push(affinity.required("Local volume requires node affinity"));
        }
    }
    if !is_found {
        errors.push(spec.required("must specify a volume type"));
    }
}

fn validate_glusterfs(source: &Field<'_>, errors: &mut ErrorList) {
    drivers::validate_glusterfs(source, errors);
    let namespace = source.member("endpointsNamespace");
    match namespace.value().and_then(|namespace| namespace.as_str()) {
        Some("") => errors.push(
            namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"),
        ),
        Some(text) => report(&namespace, names::dns_label(text), errors),
        None => {}
    }
}

fn validate_iscsi(source: &Field<'_>, errors: &mut ErrorList) {
    // The messages about names differ from those for pods.
    let form = "must be valid format";
    let secret = source.member("secretRef");
    let name = secret.member("name");
    let is_unnamed = secret.is_set() && name.text().is_empty();
    // The error of the secret comes before that of the initiator name.
    let mut unnamed = is_unnamed.then(|| name.required(""));
    let initiator = source.member("initiatorname").path();
    for mut error in ErrorList::of(|errors| drivers::validate_iscsi(source, errors)) {
        if error.detail.starts_with(form) {
            error.detail.truncate(form.len());
        }
        if error.path == initiator {
            errors.extend(unnamed.take());
        }
        errors.push(error);
    }
    errors.extend(unnamed);
}

/// Validates that a secret, if any, has a name and a namespace.
fn validate_secret(secret: &Field<'_>, errors: &mut ErrorList) {
    if secret.is_set() {
        require_text(&secret.member("name"), errors);
        require_text(&secret.member("namespace"), errors);
    }
}

fn validate_cinder(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("volumeID"), errors);
    validate_secret(&source.member("secretRef"), errors);
}

fn validate_azure_file(source: &Field<'_>, errors: &mut ErrorList) {
    drivers::validate_azure_file(source, errors);
    let namespace = source.member("secretNamespace");
    if namespace.is_set() {
        require_text(&namespace, errors);
    }
}

fn validate_local(source: &Field<'_>, errors: &mut ErrorList) {
    let path = source.member("path");
    if require_text(&path, errors) {
        files::validate_no_backsteps(&path, errors);
    }
}

fn validate_storageos(source: &Field<'_>, errors: &mut ErrorList) {
    require_valid(&source.member("volumeName"), names::dns_label, errors);
    let namespace = source.member("volumeNamespace");
    if !namespace.text().is_empty() {
        report(&namespace, names::dns_label(namespace.text()), errors);
    }
    validate_secret(&source.member("secretRef"), errors);
}

fn validate_csi(source: &Field<'_>, errors: &mut ErrorList) {
    drivers::validate_csi_driver_name(&source.member("driver"), errors);
    require_text(&source.member("volumeHandle"), errors);
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.member(name);
        if secret.is_set() {
            require_valid(&secret.member("name"), names::dns_subdomain, errors);
            require_valid(&secret.member("namespace"), names::dns_label, errors);
        }
    }
}

/// The sources that support the annotation with mount options.
const WITH_MOUNT_OPTIONS: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Validates the annotation with mount options.
pub fn validate_mount_options(metadata: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    let annotations = metadata.member("annotations");
    let annotation = annotations.member(MOUNT_OPTIONS);
    let takes_options = |name: &&str| spec.member(name).is_set();
    if annotation.is_set() && !WITH_MOUNT_OPTIONS.iter().any(takes_options) {
        let detail = "may not specify mount options for this volume type";
        errors.push(annotation.forbidden(detail));
    }
}
