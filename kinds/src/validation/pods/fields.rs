//! Rules that many fields of pods share.

use api::field::Field;
use api::names;

use crate::validation::Faults;
use crate::validation::formats::report;

/// The largest size of all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// A text that must be a DNS label.
pub fn validate_dns_label(field: &Field<'_>, faults: &mut Faults) {
    report(field, names::dns_label(field.text()), faults);
}

/// A text that must be a DNS subdomain.
pub fn validate_dns_subdomain(field: &Field<'_>, faults: &mut Faults) {
    report(field, names::dns_subdomain(field.text()), faults);
}

/// The annotations of a template.
pub fn validate_annotations(annotations: &Field<'_>, faults: &mut Faults) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        bytes += key.len() + value.text().len();
        for detail in names::qualified_name(&key.to_lowercase()) {
            faults.push(annotations.invalid_value(key, detail));
        }
    }
    if bytes > MAX_ANNOTATIONS {
        faults.push(annotations.too_long(MAX_ANNOTATIONS));
    }
}
