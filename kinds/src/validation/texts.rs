//! Faults of single texts.

use api::field::Field;

use super::Faults;
use super::formats::{report, require_text};

/// A text that must be there, and about which this rule finds nothing wrong.
pub fn require_valid(text: &Field<'_>, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    if text.text().is_empty() {
        faults.push(text.required(""));
    } else {
        report(text, rule(text.text()), faults);
    }
}

/// A text that must be one of these, if there is one.
pub fn validate_one_of(text: &Field<'_>, supported: &[&str], faults: &mut Faults) {
    if text.is_set() && !supported.contains(&text.text()) {
        faults.push(text.not_supported(supported));
    }
}

/// A text that must be there and be one of these.
pub fn require_one_of(text: &Field<'_>, supported: &[&str], faults: &mut Faults) {
    if require_text(text, faults) {
        validate_one_of(text, supported, faults);
    }
}
