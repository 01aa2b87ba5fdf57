//! Faults of single texts.

use api::field::Field;

use super::formats::{report, require_text};
use api::error_list::ErrorList;

/// A text that must be there, and about which this rule finds nothing wrong.
pub fn require_valid(text: &Field<'_>, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
    if text.text().is_empty() {
        errors.push(text.required(""));
    } else {
        report(text, rule(text.text()), errors);
    }
}

/// A text that must be one of these, if there is one.
pub fn validate_one_of(text: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if text.is_set() && !supported.contains(&text.text()) {
        errors.push(text.not_supported(supported));
    }
}

/// A text that must be there and be one of these.
pub fn require_one_of(text: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if require_text(text, errors) {
        validate_one_of(text, supported, errors);
    }
}
