//! `storage.k8s.io/v1`.

use super::{cluster, names, rules, typed, with_bare_status};
use crate::columns::storage as columns;
use api::resource::{FieldPath, GenerationRule, ResourceDefinition, UpdateCheck};

const GROUP: &str = "storage.k8s.io";

/// CSIDrivers. Their changes are counted from an absent generation.
pub fn csidrivers() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        generation: GenerationRule::FromAbsentOnChangeOf(FieldPath::list(&["spec"])),
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::csidrivers(),
        ..cluster("storage.v1.CSIDriver", GROUP, "csidrivers")
    })
}

/// CSINodes.
pub fn csinodes() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object],
        columns: columns::csinodes(),
        ..cluster("storage.v1.CSINode", GROUP, "csinodes")
    })
}

/// CSIStorageCapacities.
pub fn csistoragecapacities() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        unconditional_update: false,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::csistoragecapacities(),
        ..typed(
            "storage.v1.CSIStorageCapacity",
            GROUP,
            "csistoragecapacities",
        )
    })
}

/// StorageClasses.
pub fn storageclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["sc"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::storageclasses(),
        ..cluster("storage.v1.StorageClass", GROUP, "storageclasses")
    })
}

/// VolumeAttachments.
pub fn volumeattachments() -> ResourceDefinition {
    let row = cluster("storage.v1.VolumeAttachment", GROUP, "volumeattachments");
    rules::applied(ResourceDefinition {
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object],
        columns: columns::volumeattachments(),
        ..with_bare_status(row)
    })
}

/// VolumeAttributesClasses.
pub fn volumeattributesclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        short_names: names(&["vac"]),
        returns_deleted: true,
        columns: columns::volumeattributesclasses(),
        ..cluster(
            "storage.v1.VolumeAttributesClass",
            GROUP,
            "volumeattributesclasses",
        )
    })
}
