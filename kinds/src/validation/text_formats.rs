//! Formats of texts: names of variables and headers, keys of data, domains, paths.
//!
//! Most functions return Kubernetes' messages about an invalid text, and none for a valid one.

use api::error_list::ErrorList;
use api::field::Field;
use api::names;
pub use api::names::dns1035_label;

use super::required::require_text;

const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_REGEX: &str =
    "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const HTTP_PATH_REGEX: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
const MAX_SUBDOMAIN: usize = 253;

/// Returns the message about a text that is longer than this, if it is.
pub(super) fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// Appends examples and the regular expression to a message: `(e.g. 'a',  or 'b', regex used …)`.
pub(super) fn with_examples(message: &str, examples: &[&str], regex: &str) -> String {
    let mut text = format!("{message} (");
    if !examples.is_empty() {
        text.push_str("e.g. ");
    }
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            text.push_str(" or ");
        }
        text.push_str(&format!("'{example}', "));
    }
    text.push_str(&format!("regex used for validation is '{regex}')"));
    text
}

/// Reports whether a byte is a lower-case letter or a digit.
pub(super) fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Reports whether a text is not empty and all of its bytes are allowed.
pub(super) fn consists_of(text: &str, is_allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Checks `*.` and a subdomain.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_SUBDOMAIN).into_iter().collect();
    let is_valid = text
        .strip_prefix("*.")
        .is_some_and(|rest| rest.split('.').all(|part| is_label_with(part, b"-")));
    if !is_valid {
        wrong.push(with_examples(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
             subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
             end with an alphanumeric character",
            &["*.example.com"],
            &format!("\\*\\.{SUBDOMAIN_REGEX}"),
        ));
    }
    wrong
}

/// Checks a subdomain whose labels may have underscores.
pub fn subdomain_with_underscores(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_SUBDOMAIN).into_iter().collect();
    let is_label = |part: &str| is_label_with(part.strip_prefix('_').unwrap_or(part), b"-_");
    if !text.split('.').all(is_label) {
        wrong.push(with_examples(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '_', '-' or '.', and must start and end with an alphanumeric character",
            &["example.com"],
            UNDERSCORE_REGEX,
        ));
    }
    wrong
}

/// Reports whether a text is lower-case letters and digits, with these bytes between them.
fn is_label_with(text: &str, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    // linear: `between` has at most two bytes.
    let is_allowed = |byte: &u8| is_lower(*byte) || between.contains(byte);
    bytes.iter().all(is_allowed)
        && bytes.first().is_some_and(|byte| is_lower(*byte))
        && bytes.last().is_some_and(|byte| is_lower(*byte))
}

/// Validates a domain with at least two labels, which may end in a dot.
pub fn validate_fully_qualified_domain(field: &Field<'_>, errors: &mut ErrorList) {
    if !require_text(field, errors) {
        return;
    }
    let text = field.text();
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = names::dns_subdomain(name);
    if !wrong.is_empty() {
        errors.extend(wrong.into_iter().map(|m| field.invalid_value(name, m)));
        return;
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(field.invalid_value(name, why));
        return;
    }
    for label in name.split('.') {
        let wrong = names::dns_label(label).into_iter();
        errors.extend(wrong.map(|message| field.invalid_value(label, message)));
    }
}

/// Validates a domain, a slash, and an HTTP path.
pub fn domain_prefixed_path(field: &Field<'_>, errors: &mut ErrorList) {
    if !require_text(field, errors) {
        return;
    }
    let text = field.text();
    let (domain, path) = match text.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => (domain, path),
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(field.invalid(why));
            return;
        }
    };
    let wrong = names::dns_subdomain(domain).into_iter();
    errors.extend(wrong.map(|message| field.invalid_value(domain, message)));
    let is_valid = consists_of(path, |byte| {
        byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)
    });
    if !is_valid {
        let why = with_examples("Invalid path", &[], HTTP_PATH_REGEX);
        errors.push(field.invalid_value(path, why));
    }
}

/// Checks an identifier of the language C.
pub fn c_identifier(text: &str) -> Vec<String> {
    let is_valid = consists_of(text, |byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|first: char| first.is_ascii_digit());
    if is_valid {
        return Vec::new();
    }
    vec![with_examples(
        "a valid C identifier must start with alphabetic character or '_', followed by a string \
         of alphanumeric characters or '_'",
        &["my_name", "MY_NAME", "MyName"],
        "[A-Za-z_][A-Za-z0-9_]*",
    )]
}

/// Checks the name of an environment variable.
pub fn environment_variable_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if consists_of(text, |byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned(),
    ]
}

/// Checks a key of the data of ConfigMaps and Secrets.
pub fn config_key(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_SUBDOMAIN).into_iter().collect();
    let is_valid = consists_of(text, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    });
    if !is_valid {
        wrong.push(with_examples(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// Checks the name of an HTTP header.
pub fn http_header_name(text: &str) -> Vec<String> {
    if consists_of(text, |byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    vec![with_examples(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        &["X-Header-Name"],
        "[-A-Za-z0-9]+",
    )]
}

/// Checks that a path, if any, is absolute.
pub fn absolute_path(text: &str) -> Vec<String> {
    let is_relative = !text.is_empty() && !text.starts_with('/');
    let wrong = is_relative.then(|| "must be an absolute path".to_owned());
    wrong.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_distinguished() {
        for good in ["a", "a-1", &"a".repeat(63)] {
            assert!(dns1035_label(good).is_empty(), "{good}");
        }
        for bad in ["", "1a", "-a", "a-", "A", "a.b", &"a".repeat(64)] {
            assert_eq!(dns1035_label(bad).len(), 1, "{bad}");
        }
        assert!(wildcard_subdomain("*.a.b").is_empty());
        for bad in ["", "*", "*.", "a.b", "*.*.a", "*.A"] {
            assert_eq!(wildcard_subdomain(bad).len(), 1, "{bad}");
        }
        assert!(subdomain_with_underscores("a_b.c").is_empty());
        assert!(subdomain_with_underscores("_a.b").is_empty());
        assert_eq!(subdomain_with_underscores("a_").len(), 1);
        assert!(c_identifier("_a1").is_empty());
        assert_eq!(c_identifier("1a").len(), 1);
        assert!(environment_variable_name("1 a~").is_empty());
        for bad in ["", "a=", "ä", "a\n"] {
            assert_eq!(environment_variable_name(bad).len(), 1, "{bad}");
        }
        assert!(http_header_name("X-a").is_empty());
        assert_eq!(http_header_name("X_a").len(), 1);
        assert!(absolute_path("").is_empty() && absolute_path("/").is_empty());
        assert_eq!(absolute_path("a"), ["must be an absolute path"]);
        assert!(config_key("..a").len() == 1 && config_key(".a").is_empty());
    }

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(
            config_key("/"),
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                 (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                 '[-._a-zA-Z0-9]+')"
            ]
        );
    }
}
