//! Rules that many fields of pods share.

use api::field::Field;
use api::names;

use crate::validation::report;
use api::error_list::ErrorList;

/// The largest size of all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Validates a DNS label.
pub fn validate_dns_label(field: &Field<'_>, errors: &mut ErrorList) {
    report(field, names::dns_label(field.text()), errors);
}

/// Validates a DNS subdomain.
pub fn validate_dns_subdomain(field: &Field<'_>, errors: &mut ErrorList) {
    report(field, names::dns_subdomain(field.text()), errors);
}

/// Validates the annotations of a template.
pub fn validate_annotations(annotations: &Field<'_>, errors: &mut ErrorList) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        bytes += key.len() + value.text().len();
        for detail in names::qualified_name(&key.to_lowercase()) {
            errors.push(annotations.invalid_value(key, detail));
        }
    }
    if bytes > MAX_ANNOTATIONS {
        errors.push(annotations.too_long(MAX_ANNOTATIONS));
    }
}
