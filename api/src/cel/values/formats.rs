//! Named formats of texts, with the messages of Kubernetes.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use super::times::{read_date, read_date_time};
use crate::names;
use crate::text::url::Url;

/// A named format.
#[derive(Debug)]
pub struct NamedFormat {
    /// Its name in Kubernetes.
    pub(in super::super) name: &'static str,
    /// Its name in expressions.
    function: &'static str,
    /// The length of a regular expression for it, by which it costs.
    pub(in super::super) size: u64,
    pub(in super::super) faults: fn(&str) -> Vec<String>,
}

/// Returns the format with this name in expressions.
pub(in super::super) fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.function == name)
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", "DNS1123Label", 30, names::dns_label),
    format(
        "dns1123Subdomain",
        "DNS1123Subdomain",
        60,
        names::dns_subdomain,
    ),
    format("dns1035Label", "DNS1035Label", 30, dns1035_label),
    format("qualifiedName", "QualifiedName", 60, names::qualified_name),
    format("dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| {
        names::dns_label(&names::mask_trailing_dash(text))
    }),
    format(
        "dns1123SubdomainPrefix",
        "DNS1123SubdomainPrefix",
        60,
        |text| names::dns_subdomain(&names::mask_trailing_dash(text)),
    ),
    format("dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| {
        dns1035_label(&names::mask_trailing_dash(text))
    }),
    format("labelValue", "LabelValue", 40, names::label_value),
    format("uri", "URI", 1103, |text| {
        Url::read_request(text).err().into_iter().collect()
    }),
    format("uuid", "uuid", 70, |text| {
        fault(is_uuid(text), "does not match the UUID format")
    }),
    format("byte", "byte", 84, |text| {
        let is_valid = !text.is_empty() && STANDARD.decode(text).is_ok();
        fault(is_valid, "invalid base64")
    }),
    format("date", "date", 71, |text| {
        fault(read_date(text).is_ok(), "invalid date")
    }),
    format("datetime", "datetime", 71, |text| {
        let is_valid = text.len() >= 16 && read_date_time(text).is_ok();
        fault(is_valid, "invalid datetime")
    }),
];

const fn format(
    function: &'static str,
    name: &'static str,
    size: u64,
    faults: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat {
        name,
        function,
        size,
        faults,
    }
}

fn fault(is_valid: bool, what: &str) -> Vec<String> {
    match is_valid {
        true => Vec::new(),
        false => vec![what.to_owned()],
    }
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(is_allowed)
        && !text.ends_with('-');
    if !is_label {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    faults
}

fn is_uuid(text: &str) -> bool {
    static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
        Regex::new(pattern).ok()
    });
    UUID.as_ref().is_some_and(|pattern| pattern.is_match(text))
}
