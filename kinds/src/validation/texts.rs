//! Faults of single texts.

use api::field::Field;

use super::Faults;

/// Reports what is wrong with a text, in these words.
pub fn report(text: &Field<'_>, wrong: Vec<String>, faults: &mut Faults) {
    let faulty = wrong.into_iter();
    faults.extend(faulty.map(|message| text.invalid_value(text.text(), message)));
}

/// A text that must be there, and about which this rule finds nothing wrong.
pub fn require_valid(text: &Field<'_>, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    if text.text().is_empty() {
        faults.push(text.required(""));
    } else {
        report(text, rule(text.text()), faults);
    }
}

/// A text that must be there. Returns whether it is.
pub fn require(text: &Field<'_>, faults: &mut Faults) -> bool {
    let is_there = !text.text().is_empty();
    if !is_there {
        faults.push(text.required(""));
    }
    is_there
}

/// A text that must be one of these, if there is one.
pub fn validate_one_of(text: &Field<'_>, supported: &[&str], faults: &mut Faults) {
    if text.is_set() && !supported.contains(&text.text()) {
        faults.push(text.not_supported(supported));
    }
}

/// A text that must be there and be one of these.
pub fn require_one_of(text: &Field<'_>, supported: &[&str], faults: &mut Faults) {
    if require(text, faults) {
        validate_one_of(text, supported, faults);
    }
}
