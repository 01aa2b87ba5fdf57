//! Descriptions of defaulted volumes, claims, VolumeAttachments, StorageClasses and CSIDrivers.

use api::completeness::Expected;

use super::of;
use super::pods::sources;

/// Describes a defaulted PersistentVolumeClaim.
pub fn persistentvolumeclaim() -> Expected {
    of(Expected::default().has(&["volumeMode"]))
        .given(&["spec", "status"])
        .below("status", Expected::default().has(&["phase"]))
}

/// Describes a defaulted PersistentVolume.
pub fn persistentvolume() -> Expected {
    let spec = Expected::default().has(&["persistentVolumeReclaimPolicy", "volumeMode"]);
    of(sources(spec))
        .given(&["spec", "status"])
        .below("status", Expected::default().has(&["phase"]))
}

/// Describes a defaulted VolumeAttachment.
pub fn volumeattachment() -> Expected {
    let source = Expected::default().below("inlineVolumeSpec", sources(Expected::default()));
    of(Expected::default().below("source", source))
}

/// Describes a defaulted StorageClass.
pub fn storageclass() -> Expected {
    Expected::default().given(&["reclaimPolicy", "volumeBindingMode"])
}

/// Describes a defaulted CSIDriver.
pub fn csidriver() -> Expected {
    let spec = Expected::default()
        .given(&["attachRequired", "fsGroupPolicy", "podInfoOnMount"])
        .given(&["requiresRepublish", "seLinuxMount", "storageCapacity"])
        .filled(&["volumeLifecycleModes"]);
    of(spec).given(&["spec"])
}
