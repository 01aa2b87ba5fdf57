//! Validation of VolumeAttachments.

use api::field::Field;
use api::names;
use api::object::Object;

use super::volumes::validate_inline_volume_spec;
use crate::types::internal::invalid_struct;
use crate::validation::pods::volumes::drivers::validate_csi_driver_name;
use crate::validation::report;
use api::error_list::ErrorList;

/// The limit of an error message and of the attachment metadata, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Validates a VolumeAttachment.
pub fn validate_volumeattachment(object: &Object, errors: &mut ErrorList) {
    validate(object, errors);
    let spec = Field::of(object, "spec");
    let source = spec.member("source");
    let volume = source.member("persistentVolumeName");
    if volume.is_set() {
        report(&volume, names::dns_subdomain(volume.text()), errors);
    }
}

/// Validates an update of a VolumeAttachment, whose spec is immutable.
pub fn validate_volumeattachment_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate(object, errors);
    let spec = Field::of(object, "spec");
    if spec.value() != Field::of(stored, "spec").value() {
        let detail = "field is immutable";
        errors.push(invalid_struct(
            &spec,
            "storage.v1.VolumeAttachmentSpec",
            detail,
        ));
    }
}

/// Validates an update of the status of a VolumeAttachment.
pub fn validate_volumeattachment_status_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_volumeattachment_update(object, stored, errors);
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_csi_driver_name(&spec.member("attacher"), errors);
    validate_source(&spec.member("source"), errors);
    let node = spec.member("nodeName");
    report(&node, names::dns_subdomain(node.text()), errors);
    let status = Field::of(object, "status");
    let metadata = status.member("attachmentMetadata");
    let sizes = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len());
    if sizes.sum::<usize>() > MAX_BYTES {
        errors.push(metadata.too_long(MAX_BYTES));
    }
    for name in ["attachError", "detachError"] {
        validate_error(&status.member(name), errors);
    }
}

fn validate_source(source: &Field<'_>, errors: &mut ErrorList) {
    let inline = source.member("inlineVolumeSpec");
    let volume = source.member("persistentVolumeName");
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), volume.is_set()) {
        (false, false) => errors.push(source.required(one)),
        (true, true) => errors.push(source.forbidden(one)),
        (false, true) if volume.text().is_empty() => {
            errors.push(volume.required("must specify non empty persistentVolumeName"))
        }
        (false, true) => {}
        (true, false) => validate_inline_volume_spec(&inline, errors),
    }
}

fn validate_error(error: &Field<'_>, errors: &mut ErrorList) {
    let message = error.member("message");
    if message.text().len() > MAX_BYTES {
        errors.push(message.too_long(MAX_BYTES));
    }
    let code = error.member("errorCode");
    if code.int().is_some_and(|code| code < 0) {
        errors.push(code.invalid("must be between 0 and 2147483647, inclusive"));
    }
}
