//! Defaults of PersistentVolumes, PersistentVolumeClaims and `storage.k8s.io` (API-248, API-253,
//! API-258).

use api::object::Object;
use serde_json::{Value, json};

use super::pods::resources::{quantity, resource_list, resource_requirements};
use super::{Members, member, member_or_new, set_absent, set_default};

/// Sets the defaults of a PersistentVolume.
pub fn persistentvolume(object: &mut Object) {
    set_phase(&mut object.0);
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
    set_absent(spec, "volumeMode", "Filesystem");
    resource_list(spec, "capacity");
    sources(spec);
}

fn set_phase(members: &mut Members) {
    if let Some(status) = member_or_new(members, "status") {
        set_default(status, "phase", "Pending");
    }
}

/// Sets the defaults of the source of a volume.
fn sources(spec: &mut Members) {
    if let Some(source) = member(spec, "hostPath") {
        set_absent(source, "type", "");
    }
    if let Some(source) = member(spec, "iscsi") {
        set_default(source, "iscsiInterface", "default");
    }
    if let Some(source) = member(spec, "rbd") {
        set_default(source, "pool", "rbd");
        set_default(source, "user", "admin");
        set_default(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = member(spec, "azureDisk") {
        set_absent(source, "cachingMode", "ReadWrite");
        set_absent(source, "kind", "Shared");
        set_absent(source, "fsType", "ext4");
        set_absent(source, "readOnly", false);
    }
    if let Some(source) = member(spec, "scaleIO") {
        set_default(source, "storageMode", "ThinProvisioned");
        set_default(source, "fsType", "xfs");
    }
}

/// Sets the defaults of a PersistentVolumeClaim.
pub fn persistentvolumeclaim(object: &mut Object) {
    set_phase(&mut object.0);
    if let Some(status) = member(&mut object.0, "status") {
        resource_list(status, "capacity");
        resource_list(status, "allocatedResources");
    }
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        persistentvolumeclaim_spec(spec);
    }
}

/// Sets the defaults of the spec of a claim or of a claim template.
pub fn persistentvolumeclaim_spec(spec: &mut Members) {
    set_absent(spec, "volumeMode", "Filesystem");
    resource_requirements(spec, "resources");
}

/// Sets the defaults of a StorageClass.
pub fn storageclass(object: &mut Object) {
    set_absent(&mut object.0, "reclaimPolicy", "Delete");
    set_absent(&mut object.0, "volumeBindingMode", "Immediate");
}

/// Sets the defaults of a CSIDriver.
pub fn csidriver(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    set_absent(spec, "attachRequired", true);
    set_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    for name in [
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
    ] {
        set_absent(spec, name, false);
    }
    let modes = spec.get("volumeLifecycleModes").and_then(Value::as_array);
    if modes.is_none_or(Vec::is_empty) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

/// Brings the quantities of a CSIStorageCapacity into canonical form.
pub fn csistoragecapacity(object: &mut Object) {
    quantity(&mut object.0, "capacity");
    quantity(&mut object.0, "maximumVolumeSize");
}

/// Sets the defaults of a VolumeAttachment.
pub fn volumeattachment(object: &mut Object) {
    let source = member(&mut object.0, "spec").and_then(|spec| member(spec, "source"));
    if let Some(spec) = source.and_then(|source| member(source, "inlineVolumeSpec")) {
        resource_list(spec, "capacity");
        sources(spec);
    }
}
