//! Rules that many fields of pods share.

use api::field::Field;
use api::names;

use crate::validation::Faults;
use crate::validation::formats::{one_of, require_text};

/// The largest size of all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// What is wrong with a field's text, in these words.
pub fn report_text(
    field: &Field<'_>,
    wrong: impl IntoIterator<Item = impl Into<String>>,
    faults: &mut Faults,
) {
    for detail in wrong {
        faults.push(field.invalid_value(field.text(), detail));
    }
}

/// A text that must be a DNS label.
pub fn validate_dns_label(field: &Field<'_>, faults: &mut Faults) {
    report_text(field, names::dns_label(field.text()), faults);
}

/// A text that must be a DNS subdomain.
pub fn validate_dns_subdomain(field: &Field<'_>, faults: &mut Faults) {
    report_text(field, names::dns_subdomain(field.text()), faults);
}

/// A text that must be there, and one of these.
pub fn require_supported(field: &Field<'_>, supported: &[&str], faults: &mut Faults) {
    if require_text(field, faults) {
        one_of(field, supported, faults);
    }
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
