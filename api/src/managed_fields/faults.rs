//! Validation of entries that can be parsed (http.md 5.1).

use super::entry::{Entry, written_entries};
use crate::field_error::{FieldError, bounded};
use crate::object::Object;
use crate::options::{MAX_FIELD_MANAGER_BYTES, manager_errors};

/// Kubernetes' limit on the name of a subresource, in bytes.
const MAX_SUBRESOURCE_BYTES: usize = 256;

/// Validates the names of managers and subresources. Returns errors in the order of the entries.
pub fn errors(object: &Object) -> Vec<FieldError> {
    let text = object.managed_fields();
    if !text.is_some_and(|text| may_have_faults(text)) {
        return Vec::new();
    }
    // Entries that can't be parsed were refused or replaced before.
    let entries = written_entries(object).unwrap_or_default();
    let of_entry = |(place, entry): (usize, &Entry)| {
        let path = format!("metadata.managedFields[{place}]");
        let identity = entry.identity();
        let mut errors = manager_errors(&format!("{path}.manager"), &identity.manager);
        if identity.subresource.len() > MAX_SUBRESOURCE_BYTES {
            let path = format!("{path}.subresource");
            errors.push(FieldError::too_long(path, MAX_SUBRESOURCE_BYTES));
        }
        errors
    };
    bounded(entries.iter().enumerate().flat_map(of_entry))
}

/// Returns whether the text has anything long, escaped or outside of printable ASCII. The entries
/// of most objects don't, and need not be parsed.
fn may_have_faults(text: &str) -> bool {
    let is_other = |byte: &u8| *byte == b'\\' || !(b' '..=b'~').contains(byte);
    let mut parts = text.as_bytes().split(|byte| *byte == b'"');
    parts.any(|part| part.len() > MAX_FIELD_MANAGER_BYTES || part.iter().any(is_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-188, http.md 5.1: the names follow the same rules as `fieldManager` of a request.
    #[test]
    fn names_are_checked_like_those_of_requests() {
        let entry = |manager: &str, subresource: &str| {
            format!(
                r#"{{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"k:{{\"a\":1}}":{{}}}}}},"manager":"{manager}","operation":"Update","subresource":"{subresource}"}}"#
            )
        };
        let messages = |entries: &[String]| {
            let mut object = Object::default();
            object.set_managed_fields(Some(format!("[{}]", entries.join(",")).into()));
            let errors = errors(&object).into_iter();
            errors.map(|error| error.to_string()).collect::<Vec<_>>()
        };
        let long = "m".repeat(129);
        assert_eq!(
            messages(&[entry("m", "status"), entry("kübel", "status")]),
            [""; 0]
        );
        assert_eq!(
            messages(&[entry("m", "status"), entry(&long, &"s".repeat(257))]),
            [
                "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        assert_eq!(
            messages(&[entry("a\\u0001b\u{ad}c", "")]),
            [
                "metadata.managedFields[0].manager: Invalid value: \"a\\x01b\\u00adc\": invalid \
                 character U+0001 (at position 1)",
                "metadata.managedFields[0].manager: Invalid value: \"a\\x01b\\u00adc\": invalid \
                 character U+00AD (at position 3)",
            ]
        );
        assert_eq!(messages(&[]), [""; 0]);
        assert_eq!(errors(&Object::default()), []);
    }
}
