//! Forms of texts and numbers: names of ports and variables, keys of data, domains, paths.
//!
//! Each rule returns the messages of Kubernetes for what is wrong; none for what is right.

use api::field::{Detail, Field};
use api::names;
use serde_json::Value;

use api::error_list::ErrorList;

const LABEL_REGEX: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_REGEX: &str =
    "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const HTTP_PATH_REGEX: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
const MAX_SUBDOMAIN: usize = 253;
const MAX_LABEL: usize = 63;
const MAX_PORT_NAME: usize = 15;

/// The largest identifier of a user or group.
const MAX_ID: i64 = 2_147_483_647;

/// Reports all that is wrong with a text.
pub fn report<'f, D: Into<Detail<'f>>>(
    field: &Field<'f>,
    wrong: impl IntoIterator<Item = D>,
    errors: &mut ErrorList,
) {
    for message in wrong {
        errors.push(match field.value() {
            Some(_) => field.invalid(message),
            None => field.invalid_value("", message),
        });
    }
}

/// A text may not be absent. Returns whether it is there.
pub fn require_text(field: &Field<'_>, errors: &mut ErrorList) -> bool {
    let is_there = !field.text().is_empty();
    if !is_there {
        errors.push(field.required(""));
    }
    is_there
}

/// A text is one of these. An absent one counts as empty.
pub fn one_of(field: &Field<'_>, supported: &[&str], errors: &mut ErrorList) {
    if !supported.contains(&field.text()) {
        errors.push(field.not_supported(supported));
    }
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// The examples and the expression behind a message: `(e.g. 'a',  or 'b', regex used …)`.
fn with_examples(message: &str, examples: &[&str], regex: &str) -> String {
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

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether all bytes are of these, and there is one.
fn consists_of(text: &str, is_allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// A label of RFC 1035: as those of [`names::dns_label`], but a letter comes first.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_LABEL).into_iter().collect();
    let bytes = text.as_bytes();
    let is_label = bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-')
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|byte| is_lower(*byte));
    if !is_label {
        wrong.push(with_examples(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            LABEL_REGEX,
        ));
    }
    wrong
}

/// `*.` and a subdomain.
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

/// A subdomain whose labels may have underscores.
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

/// Lower case letters and digits, with these bytes between them.
fn is_label_with(text: &str, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    // linear: at most two bytes.
    let is_allowed = |byte: &u8| is_lower(*byte) || between.contains(byte);
    bytes.iter().all(is_allowed)
        && bytes.first().is_some_and(|byte| is_lower(*byte))
        && bytes.last().is_some_and(|byte| is_lower(*byte))
}

/// A domain with at least two labels, which may end in a dot. Faults are those of its field.
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

/// A domain, a slash, and a path of HTTP. Faults are those of its field.
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

/// An identifier of the language C.
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

/// The name of a variable of the environment.
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

/// A key of the data of ConfigMaps and Secrets.
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

/// The name of a header of HTTP.
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

/// The number of a port.
pub fn port_number(number: i64) -> Option<Detail<'static>> {
    in_range(number, 1, 65535)
}

/// A number between two others.
pub fn in_range(number: i64, least: i64, most: i64) -> Option<Detail<'static>> {
    let is_valid = (least..=most).contains(&number);
    (!is_valid).then_some(Detail::Range(least, most))
}

/// The identifier of a user or a group.
pub fn user_id(number: i64) -> Option<Detail<'static>> {
    in_range(number, 0, MAX_ID)
}

/// The name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_PORT_NAME).into_iter().collect();
    if !consists_of(text, |byte| is_lower(byte) || byte == b'-') {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The number or name of a port.
pub fn port_number_or_name(port: &Field<'_>) -> Vec<Detail<'static>> {
    match port.value() {
        Some(Value::String(name)) => port_name(name).into_iter().map(Detail::from).collect(),
        _ => Vec::from_iter(port_number(port.int().unwrap_or_default())),
    }
}

/// A percentage without sign or fraction.
pub fn percent(text: &str) -> Vec<String> {
    let is_valid = text
        .strip_suffix('%')
        .is_some_and(|digits| consists_of(digits, |byte| byte.is_ascii_digit()));
    if is_valid {
        return Vec::new();
    }
    vec![with_examples(
        "a valid percent string must be a numeric string followed by an ending '%'",
        &["1%", "93%"],
        "[0-9]+%",
    )]
}

/// A text that is there begins with a slash.
pub fn absolute_path(text: &str) -> Vec<String> {
    let is_relative = !text.is_empty() && !text.starts_with('/');
    let wrong = is_relative.then(|| "must be an absolute path".to_owned());
    wrong.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart() {
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
        assert!(percent("0%").is_empty() && percent("300%").is_empty());
        assert_eq!(percent("%").len(), 1);
        assert!(absolute_path("").is_empty() && absolute_path("/").is_empty());
        assert_eq!(absolute_path("a"), ["must be an absolute path"]);
        assert!(config_key("..a").len() == 1 && config_key(".a").is_empty());
    }

    /// The messages of kube-apiserver 1.36.
    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(
            port_name("-"),
            [
                "must contain at least one letter (a-z)",
                "must not begin or end with a hyphen"
            ]
        );
        assert_eq!(
            config_key("/"),
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                 (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                 '[-._a-zA-Z0-9]+')"
            ]
        );
        let text = |wrong: Option<Detail<'_>>| wrong.map(|detail| detail.to_string());
        let ports = "must be between 1 and 65535, inclusive";
        assert_eq!(text(port_number(0)).as_deref(), Some(ports));
        let ids = "must be between 0 and 2147483647, inclusive";
        assert_eq!(text(user_id(-1)).as_deref(), Some(ids));
        assert_eq!(text(user_id(0)), None);
    }
}
