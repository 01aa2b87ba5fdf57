//! What names, keys and values may look like, with the messages of Kubernetes (5.2, 5.3).
//!
//! Each rule answers the list of what is wrong with a text, empty when nothing is.

use uuid::Uuid;

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const MAX_SUBDOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// A DNS subdomain of at most 253 characters (API-201, API-202).
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_SUBDOMAIN {
        wrong.push(format!("must be no more than {MAX_SUBDOMAIN} characters"));
    }
    if !is_subdomain(text) {
        wrong.push(subdomain_message());
    }
    wrong
}

/// A DNS label of at most 63 characters (API-201).
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(format!("must be no more than {MAX_LABEL} characters"));
    }
    if !is_dns_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                 or '123-abc', regex used for validation is '{LABEL_REGEX}')"
            )
        });
    }
    wrong
}

/// A part of a path (API-200).
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

/// The beginning of a part of a path.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|illegal| text.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// A label or annotation key, or a finalizer: an optional DNS subdomain, a slash, a name
/// (API-204, API-205).
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > MAX_SUBDOMAIN {
                    wrong.push(format!(
                        "prefix part must be no more than {MAX_SUBDOMAIN} bytes"
                    ));
                }
                if !is_subdomain(prefix) {
                    wrong.push(format!("prefix part {}", subdomain_message()));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED_PART} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL {
        wrong.push(format!("name part must be no more than {MAX_LABEL} bytes"));
    }
    if !is_qualified_part(name) {
        wrong.push(format!("name part {QUALIFIED_PART}"));
    }
    wrong
}

/// The value of a label (API-204).
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(format!("must be no more than {MAX_LABEL} bytes"));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// A prefix of a name as its rule sees it: a dash at the end stands for what will follow
/// (API-199).
pub fn mask_trailing_dash(prefix: &str) -> std::borrow::Cow<'_, str> {
    match prefix.strip_suffix('-') {
        Some(before) if !before.is_empty() => {
            let mut masked = before.to_owned();
            masked.pop();
            masked.push('a');
            masked.into()
        }
        _ => prefix.into(),
    }
}

/// Letters and digits of generated suffixes (API-199).
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_BASE: usize = 58;

/// A name from a base: its first 58 bytes and 5 random characters (API-199, RG-3).
pub fn generate_name(base: &str) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base.get(..end).unwrap_or_default().to_owned();
    let longest = name.len() + SUFFIX_LENGTH;
    while name.len() < longest {
        // Bytes 6 and 8 of a version 4 UUID hold fixed bits; the first six are random.
        for byte in Uuid::new_v4().into_bytes().into_iter().take(6) {
            let byte = usize::from(byte);
            // Bytes beyond a multiple of the alphabet's length would favour its first letters.
            let fair = byte < 256 / SUFFIX_ALPHABET.len() * SUFFIX_ALPHABET.len();
            if let (true, Some(letter)) = (
                fair && name.len() < longest,
                SUFFIX_ALPHABET.get(byte % SUFFIX_ALPHABET.len()),
            ) {
                name.push(char::from(*letter));
            }
        }
    }
    name
}

fn subdomain_message() -> String {
    format!(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
         regex used for validation is '{SUBDOMAIN_REGEX}')"
    )
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| is_lower(*byte))
        && bytes.last().is_some_and(|byte| is_lower(*byte))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}
