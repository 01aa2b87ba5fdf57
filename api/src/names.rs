//! The rules for names, keys and values, with the messages of Kubernetes (http.md 5.2, 5.3).
//!
//! Each rule returns a list of faults, which is empty for a valid text.

use uuid::Uuid;

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const MAX_SUBDOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// Validates a DNS subdomain of at most 253 characters (API-201, API-202).
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

/// Validates a DNS label of at most 63 characters (API-201).
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

/// Validates a label of RFC 1035: like [`dns_label`], but beginning with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(format!("must be no more than {MAX_LABEL} characters"));
    }
    if !is_dns_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    wrong
}

/// Validates a path segment (API-200).
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

/// Validates the prefix of a path segment.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        // linear: there are two illegal characters.
        .filter(|illegal| text.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// Validates a label key, an annotation key or a finalizer: an optional DNS subdomain and slash,
/// and a name (API-204, API-205).
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

/// Validates a label value (API-204).
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

/// Returns a `generateName` prefix as its name rule checks it: a dash at the end and the character
/// before it are replaced by a letter, as in Kubernetes, because generated text follows (API-199).
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

/// The letters and digits of generated suffixes (API-199). Like Kubernetes' alphabet, it has no
/// vowels, so that suffixes don't form words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_BASE: usize = 58;

/// Generates a name: the first 58 bytes of the base, and 5 random characters (API-199, RG-3).
pub fn generate_name(base: &str) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base.get(..end).unwrap_or_default().to_owned();
    let longest = name.len() + SUFFIX_LENGTH;
    while name.len() < longest {
        // Use the first six bytes: bytes 6 and 8 of a version 4 UUID have fixed bits.
        for byte in Uuid::new_v4().into_bytes().into_iter().take(6) {
            let byte = usize::from(byte);
            // Bytes beyond a multiple of the alphabet's length are skipped, because they would
            // favour its first letters.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// API-200, API-201, API-202.
    #[test]
    fn subdomains_labels_and_segments_have_their_rules() {
        for accepted in ["a", "0", "a.b-c.0", "a--b", &"a".repeat(253)] {
            assert!(dns_subdomain(accepted).is_empty(), "{accepted}");
        }
        for bad in [
            "", "Upper", "a_b", "-a", "a-", ".a", "a.", "a..b", "a b", "ä", "a.-b",
        ] {
            assert_eq!(dns_subdomain(bad), [subdomain_message()], "{bad}");
        }
        let long = dns_subdomain(&"a".repeat(254));
        assert_eq!(long, ["must be no more than 253 characters"]);
        assert!(dns_label(&"a".repeat(63)).is_empty());
        let long = dns_label(&"a".repeat(64));
        assert_eq!(long, ["must be no more than 63 characters"]);
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        let wrong = dns_label("A").concat();
        assert!(wrong.starts_with("a lowercase RFC 1123 label must consist of"));
        assert!(wrong.contains("(e.g. 'my-name',  or '123-abc', regex used"));
        assert!(path_segment("a:B_ä").is_empty());
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(
            path_segment("a/b%c"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }

    /// API-204: the messages of kube-apiserver, for keys with and without a prefix.
    #[test]
    fn qualified_names_say_which_part_is_wrong() {
        for accepted in ["a", "A_.-z", "ex.com/B", &format!("{}/a", "a".repeat(253))] {
            assert!(qualified_name(accepted).is_empty(), "{accepted}");
        }
        let part = format!("name part {QUALIFIED_PART}");
        assert_eq!(qualified_name("-a"), std::slice::from_ref(&part));
        assert_eq!(qualified_name("a "), std::slice::from_ref(&part));
        let empty = ["name part must be non-empty".to_owned(), part];
        assert_eq!(qualified_name(""), empty);
        assert_eq!(qualified_name("a/"), empty);
        assert_eq!(qualified_name("/b"), ["prefix part must be non-empty"]);
        let upper = format!("prefix part {}", subdomain_message());
        assert_eq!(qualified_name("Upper/b"), [upper]);
        let long = "name part must be no more than 63 bytes";
        assert_eq!(qualified_name(&"a".repeat(64)), [long]);
        let long = "prefix part must be no more than 253 bytes";
        assert_eq!(qualified_name(&format!("{}/b", "a".repeat(254))), [long]);
        let wrong = qualified_name("a/b/c").concat();
        assert!(wrong.starts_with("a valid label key must consist of"));
        assert!(wrong.ends_with("and '/' (e.g. 'example.com/MyName')"));
    }

    /// API-204.
    #[test]
    fn label_values_may_be_empty() {
        for accepted in ["", "a", "A_.-z", "12345", &"a".repeat(63)] {
            assert!(label_value(accepted).is_empty(), "{accepted}");
        }
        for bad in ["-a", "a-", "a b", "a/b", "ä"] {
            assert_eq!(label_value(bad), [LABEL_VALUE], "{bad}");
        }
        assert_eq!(
            label_value(&"a".repeat(64)),
            ["must be no more than 63 bytes"]
        );
    }

    /// API-199: a base may end with a dash, and then its last character is not checked.
    #[test]
    fn prefixes_of_names_are_masked_at_the_end() {
        assert_eq!(mask_trailing_dash("ok-"), "oa");
        assert_eq!(mask_trailing_dash("b--"), "ba");
        assert_eq!(mask_trailing_dash("-"), "-");
        assert_eq!(mask_trailing_dash("ok"), "ok");
        assert_eq!(mask_trailing_dash("ä-"), "a");
    }

    /// API-199, RG-3.
    #[test]
    fn generated_names_are_cut_and_differ() {
        let one = generate_name("gen-");
        let (base, suffix) = one.split_at(4);
        assert_eq!((base, suffix.len()), ("gen-", 5));
        assert!(suffix.bytes().all(|b| SUFFIX_ALPHABET.contains(&b)));
        let many: std::collections::HashSet<String> =
            (0..200).map(|_| generate_name("g")).collect();
        assert!(many.len() > 190);
        assert_eq!(generate_name(&"a".repeat(80)).len(), 63);
        assert!(generate_name(&"ä".repeat(40)).starts_with(&"ä".repeat(29)));
    }
}
