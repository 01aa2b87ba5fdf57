//! Validation of status conditions of the type `meta.v1.Condition`.

use std::collections::HashSet;

use api::field::Field;
use api::names;

use api::error_list::ErrorList;

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

/// Validates conditions.
pub fn validate_conditions(conditions: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        if !seen.insert(condition.text_of("type")) {
            errors.push(condition.member("type").duplicate());
        }
        validate_condition(&condition, errors);
    }
}

fn validate_condition(condition: &Field<'_>, errors: &mut ErrorList) {
    let of = condition.member("type");
    let wrong = names::qualified_name(of.text()).into_iter();
    errors.extend(wrong.map(|message| of.invalid_value(of.text(), message)));
    let status = condition.member("status");
    if !matches!(status.text(), "False" | "True" | "Unknown") {
        errors.push(status.not_supported(&["False", "True", "Unknown"]));
    }
    let generation = condition.member("observedGeneration");
    if generation.int().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    let time = condition.member("lastTransitionTime");
    if !time.is_set() {
        errors.push(time.required(""));
    }
    let reason = condition.member("reason");
    if reason.text().is_empty() {
        errors.push(reason.required(""));
    } else {
        if !is_reason(reason.text()) {
            errors.push(reason.invalid(
                "a condition reason must start with alphabetic character, optionally followed by \
                 a string of alphanumeric characters or '_,:', and must end with an alphanumeric \
                 character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
                 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                 '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
            ));
        }
        if reason.text().len() > MAX_REASON {
            errors.push(reason.too_long(MAX_REASON));
        }
    }
    let message = condition.member("message");
    if message.text().len() > MAX_MESSAGE {
        errors.push(message.too_long(MAX_MESSAGE));
    }
}

/// Reports whether a text is a valid reason: it starts with a letter; letters, digits, `_`, `,` and
/// `:` follow; it ends with neither `,` nor `:`.
fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(is_word)
        && bytes
            .iter()
            .all(|byte| is_word(byte) || matches!(byte, b',' | b':'))
}
