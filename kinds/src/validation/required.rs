//! Validation of texts that must not be empty.

use api::error_list::ErrorList;
use api::field::Field;

use super::report;

/// Validates that a text is not empty. Returns whether it is valid.
pub fn require_text(field: &Field<'_>, errors: &mut ErrorList) -> bool {
    let is_there = !field.text().is_empty();
    if !is_there {
        errors.push(field.required(""));
    }
    is_there
}

/// Validates that a text is not empty and satisfies a rule.
pub fn require_valid(field: &Field<'_>, rule: fn(&str) -> Vec<String>, errors: &mut ErrorList) {
    if require_text(field, errors) {
        report(field, rule(field.text()), errors);
    }
}
