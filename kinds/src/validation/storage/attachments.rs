//! What is refused of attachments of volumes.

use api::field::Field;
use api::names;
use api::object::Object;

use super::volumes::validate_inline_volume_spec;
use crate::validation::Faults;
use crate::validation::formats::report;
use crate::validation::internal::invalid_struct;
use crate::validation::pods::volumes::drivers::validate_csi_driver_name;

/// The largest message of an error, and the largest metadata of an attachment.
const MAX_BYTES: usize = 256 * 1024;

/// The faults of an attachment.
pub fn validate_volumeattachment(object: &Object) -> Faults {
    let mut faults = validate(object);
    let spec = Field::of(object, "spec");
    let source = spec.member("source");
    let volume = source.member("persistentVolumeName");
    if volume.is_set() {
        report(&volume, names::dns_subdomain(volume.text()), &mut faults);
    }
    faults
}

/// The faults of a change to an attachment: its spec stays.
pub fn validate_volumeattachment_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate(object);
    let spec = Field::of(object, "spec");
    if spec.value() != Field::of(stored, "spec").value() {
        let detail = "field is immutable";
        faults.push(invalid_struct(
            &spec,
            "storage.v1.VolumeAttachmentSpec",
            detail,
        ));
    }
    faults
}

/// The faults of a change to the status of an attachment.
pub fn validate_volumeattachment_status_update(object: &Object, stored: &Object) -> Faults {
    validate_volumeattachment_update(object, stored)
}

fn validate(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    validate_csi_driver_name(&spec.member("attacher"), &mut faults);
    validate_source(&spec.member("source"), &mut faults);
    let node = spec.member("nodeName");
    report(&node, names::dns_subdomain(node.text()), &mut faults);
    let status = Field::of(object, "status");
    let metadata = status.member("attachmentMetadata");
    let sizes = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len());
    if sizes.sum::<usize>() > MAX_BYTES {
        faults.push(metadata.too_long(MAX_BYTES));
    }
    for name in ["attachError", "detachError"] {
        validate_error(&status.member(name), &mut faults);
    }
    faults
}

fn validate_source(source: &Field<'_>, faults: &mut Faults) {
    let inline = source.member("inlineVolumeSpec");
    let volume = source.member("persistentVolumeName");
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), volume.is_set()) {
        (false, false) => faults.push(source.required(one)),
        (true, true) => faults.push(source.forbidden(one)),
        (false, true) if volume.text().is_empty() => {
            faults.push(volume.required("must specify non empty persistentVolumeName"))
        }
        (false, true) => {}
        (true, false) => validate_inline_volume_spec(&inline, faults),
    }
}

fn validate_error(error: &Field<'_>, faults: &mut Faults) {
    let message = error.member("message");
    if message.text().len() > MAX_BYTES {
        faults.push(message.too_long(MAX_BYTES));
    }
    let code = error.member("errorCode");
    if code.int().is_some_and(|code| code < 0) {
        faults.push(code.invalid("must be between 0 and 2147483647, inclusive"));
    }
}
