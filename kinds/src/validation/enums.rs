//! Validation of texts that must be one of a list.

use api::error_list::ErrorList;
use api::field::Field;

use super::required::require_text;

/// Validates that a text is one of these. An absent one counts as empty.
pub fn must_be_one_of(field: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if !supported.contains(&field.text()) {
        errors.push(field.not_supported(supported));
    }
}

/// Validates that a text, if any, is one of these.
pub fn validate_one_of(text: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if text.is_set() && !supported.contains(&text.text()) {
        errors.push(text.not_supported(supported));
    }
}

/// Validates that a text is not empty and is one of these.
pub fn require_one_of(text: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if require_text(text, errors) {
        validate_one_of(text, supported, errors);
    }
}
