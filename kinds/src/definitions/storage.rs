//! The resources of `storage.k8s.io/v1`.

use super::row::Row;
use super::{cluster, typed, with_bare_status};
use crate::columns::storage as columns;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{FieldPath, GenerationRule, ResourceDefinition, UpdateCheck};

const GROUP: &str = "storage.k8s.io";

/// Returns the definition of CSIDrivers. New ones have no generation; the first change sets it
/// (API-197).
pub fn csidrivers() -> ResourceDefinition {
    Row {
        generation: GenerationRule::FromAbsentOnChangeOf(FieldPath::list(&["spec"])),
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::csidrivers(),
        defaults: Some(defaults::storage::csidriver),
        complete: Some(defaults::complete::storage::csidriver),
        disabled: Some(strategies::disabled_fields::drop_of_csidriver),
        validate: Some(validation::storage::validate_csidriver),
        validate_update: Some(validation::storage::validate_csidriver_update),
        warnings: Some(warnings::storage::of_csidriver),
        ..cluster("storage.v1.CSIDriver", GROUP, "csidrivers")
    }
    .definition()
}

/// Returns the definition of CSINodes.
pub fn csinodes() -> ResourceDefinition {
    Row {
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object],
        columns: columns::csinodes(),
        validate: Some(validation::storage::validate_csinode),
        validate_update: Some(validation::storage::validate_csinode_update),
        ..cluster("storage.v1.CSINode", GROUP, "csinodes")
    }
    .definition()
}

/// Returns the definition of CSIStorageCapacities.
pub fn csistoragecapacities() -> ResourceDefinition {
    Row {
        unconditional_update: false,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::csistoragecapacities(),
        defaults: Some(defaults::storage::csistoragecapacity),
        complete: Some(defaults::complete::quantities),
        validate: Some(validation::storage::validate_csistoragecapacity),
        validate_update: Some(validation::storage::validate_csistoragecapacity_update),
        warnings: Some(warnings::storage::of_csistoragecapacity),
        ..typed(
            "storage.v1.CSIStorageCapacity",
            GROUP,
            "csistoragecapacities",
        )
    }
    .definition()
}

/// Returns the definition of StorageClasses.
pub fn storageclasses() -> ResourceDefinition {
    Row {
        short_names: &["sc"],
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::storageclasses(),
        defaults: Some(defaults::storage::storageclass),
        complete: Some(defaults::complete::storage::storageclass),
        validate: Some(validation::storage::validate_storageclass),
        validate_update: Some(validation::storage::validate_storageclass_update),
        warnings: Some(warnings::storage::of_storageclass),
        ..cluster("storage.v1.StorageClass", GROUP, "storageclasses")
    }
    .definition()
}

/// Returns the definition of VolumeAttachments.
pub fn volumeattachments() -> ResourceDefinition {
    let row = cluster("storage.v1.VolumeAttachment", GROUP, "volumeattachments");
    Row {
        unconditional_update: false,
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object],
        columns: columns::volumeattachments(),
        defaults: Some(defaults::storage::volumeattachment),
        complete: Some(defaults::complete::storage::volumeattachment),
        validate: Some(validation::storage::validate_volumeattachment),
        validate_update: Some(validation::storage::validate_volumeattachment_update),
        validate_status: Some(validation::storage::validate_volumeattachment_status_update),
        ..with_bare_status(row)
    }
    .definition()
}

/// Returns the definition of VolumeAttributesClasses.
pub fn volumeattributesclasses() -> ResourceDefinition {
    Row {
        short_names: &["vac"],
        returns_deleted: true,
        columns: columns::volumeattributesclasses(),
        validate: Some(validation::storage::validate_volumeattributesclass),
        validate_update: Some(validation::storage::validate_volumeattributesclass_update),
        ..cluster(
            "storage.v1.VolumeAttributesClass",
            GROUP,
            "volumeattributesclasses",
        )
    }
    .definition()
}
