//! Validation of volumes, claims and the kinds of `storage.k8s.io`.

mod attachments;
pub mod claims;
mod classes;
mod drivers;
mod sources;
mod volumes;

pub use attachments::{
    validate_volumeattachment, validate_volumeattachment_status_update,
    validate_volumeattachment_update,
};
pub use claims::{
    validate_persistentvolumeclaim, validate_persistentvolumeclaim_status_update,
    validate_persistentvolumeclaim_update,
};
pub use classes::{
    validate_storageclass, validate_storageclass_update, validate_volumeattributesclass,
    validate_volumeattributesclass_update,
};
pub use drivers::{
    validate_csidriver, validate_csidriver_update, validate_csinode, validate_csinode_update,
    validate_csistoragecapacity, validate_csistoragecapacity_update,
};
pub use volumes::{validate_persistentvolume, validate_persistentvolume_update};

use api::field::Field;

use crate::defaults::pods::resources::read;
use api::error_list::ErrorList;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Validates access modes. Errors have the path of the list.
fn validate_access_modes(modes: &Field<'_>, errors: &mut ErrorList) {
    let (mut has_pod, mut has_other) = (false, false);
    for mode in modes.list() {
        let text = mode.as_str().unwrap_or_default();
        if !ACCESS_MODES.contains(&text) {
            errors.push(modes.with_value(mode).not_supported(&ACCESS_MODES));
        } else if text == "ReadWriteOncePod" {
            has_pod = true;
        } else {
            has_other = true;
        }
    }
    if has_pod && has_other {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(modes.forbidden(detail));
    }
}

/// Validates that a quantity is not negative. The error shows it as a number.
fn validate_basic(field: &Field<'_>, errors: &mut ErrorList) {
    let quantity = field.value().and_then(read);
    if let Some(quantity) = quantity.filter(|quantity| quantity.sign() < 0) {
        let detail = "must be a valid resource quantity";
        errors.push(field.invalid_value(quantity.value(), detail));
    }
}

/// Validates that a quantity is positive.
fn validate_positive(field: &Field<'_>, errors: &mut ErrorList) {
    let quantity = field.value().and_then(read);
    if let Some(quantity) = quantity.filter(|quantity| quantity.sign() <= 0) {
        let detail = "must be greater than zero";
        errors.push(field.invalid_value(quantity.to_string(), detail));
    }
}

#[cfg(test)]
mod tests;
