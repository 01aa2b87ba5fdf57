//! What is refused of what a persistent volume is made of. Most of it is as in volumes of pods.

use api::field::Field;
use api::names;

use crate::validation::Faults;
use crate::validation::formats::{report, require_text};
use crate::validation::pods::volumes::{drivers, files};
use crate::validation::texts::require_valid;

type Rule = fn(&Field<'_>, &mut Faults);

/// All kinds of sources in the order of their checks: the name, how it is called in a fault about
/// a second one, and the rule for its members.
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
    // A second one of these is not refused.
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

/// The faults of the source of a volume. There is one.
pub fn validate_sources(spec: &Field<'_>, faults: &mut Faults) {
    let mut is_found = false;
    for (name, second, rule) in KINDS {
        let source = spec.member(name);
        if !source.is_set() {
            continue;
        }
        if is_found && !second.is_empty() {
            let place = spec.member(second);
            faults.push(place.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        is_found = true;
        rule(&source, faults);
        if name == "local" && !spec.member("nodeAffinity").is_set() {
            let affinity = spec.member("nodeAffinity");
            faults.push(affinity.required("Local volume requires node affinity"));
        }
    }
    if !is_found {
        faults.push(spec.required("must specify a volume type"));
    }
}

fn validate_glusterfs(source: &Field<'_>, faults: &mut Faults) {
    drivers::validate_glusterfs(source, faults);
    let namespace = source.member("endpointsNamespace");
    match namespace.value().and_then(|namespace| namespace.as_str()) {
        Some("") => faults.push(
            namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"),
        ),
        Some(text) => report(&namespace, names::dns_label(text), faults),
        None => {}
    }
}

fn validate_iscsi(source: &Field<'_>, faults: &mut Faults) {
    let before = faults.len();
    drivers::validate_iscsi(source, faults);
    // The words for names differ from those for pods.
    let form = "must be valid format";
    for fault in faults.iter_mut().skip(before) {
        if fault.detail.starts_with(form) {
            fault.detail.truncate(form.len());
        }
    }
    let secret = source.member("secretRef");
    let name = secret.member("name");
    if secret.is_set() && name.text().is_empty() {
        // It is reported in front of the fault of the initiator's name.
        let at = source.member("initiatorname").path();
        let place = faults
            .iter()
            .skip(before)
            .position(|fault| fault.path == at);
        let place = place.map_or(faults.len(), |place| before + place);
        faults.insert(place, name.required(""));
    }
}

/// A secret, if there is one, has a name and a namespace.
fn validate_secret(secret: &Field<'_>, faults: &mut Faults) {
    if secret.is_set() {
        require_text(&secret.member("name"), faults);
        require_text(&secret.member("namespace"), faults);
    }
}

fn validate_cinder(source: &Field<'_>, faults: &mut Faults) {
    require_text(&source.member("volumeID"), faults);
    validate_secret(&source.member("secretRef"), faults);
}

fn validate_azure_file(source: &Field<'_>, faults: &mut Faults) {
    drivers::validate_azure_file(source, faults);
    let namespace = source.member("secretNamespace");
    if namespace.is_set() {
        require_text(&namespace, faults);
    }
}

fn validate_local(source: &Field<'_>, faults: &mut Faults) {
    let path = source.member("path");
    if require_text(&path, faults) {
        files::validate_no_backsteps(&path, faults);
    }
}

fn validate_storageos(source: &Field<'_>, faults: &mut Faults) {
    require_valid(&source.member("volumeName"), names::dns_label, faults);
    let namespace = source.member("volumeNamespace");
    if !namespace.text().is_empty() {
        report(&namespace, names::dns_label(namespace.text()), faults);
    }
    validate_secret(&source.member("secretRef"), faults);
}

fn validate_csi(source: &Field<'_>, faults: &mut Faults) {
    drivers::validate_csi_driver_name(&source.member("driver"), faults);
    require_text(&source.member("volumeHandle"), faults);
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.member(name);
        if secret.is_set() {
            require_valid(&secret.member("name"), names::dns_subdomain, faults);
            require_valid(&secret.member("namespace"), names::dns_label, faults);
        }
    }
}

/// Sources that take options of mounting as an annotation.
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

/// The faults of the annotation for options of mounting.
pub fn validate_mount_options(metadata: &Field<'_>, spec: &Field<'_>, faults: &mut Faults) {
    let annotations = metadata.member("annotations");
    let annotation = annotations.member(MOUNT_OPTIONS);
    let takes_options = |name: &&str| spec.member(name).is_set();
    if annotation.is_set() && !WITH_MOUNT_OPTIONS.iter().any(takes_options) {
        let detail = "may not specify mount options for this volume type";
        faults.push(annotation.forbidden(detail));
    }
}
