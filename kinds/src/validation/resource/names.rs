//! Validation of names of drivers, pools, attributes and requests.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use api::field::Field;
use api::names;
use api::text::quoting::go_quote;

use crate::validation::pods::volumes::drivers::validate_csi_driver_name;
use crate::validation::required::require_text;
use crate::validation::text_formats::c_identifier;
use api::error_list::ErrorList;

const MAX_DOMAIN: usize = 63;
const MAX_IDENTIFIER: usize = 32;
/// Replaces the part of a long name that is cut.
const CUT: &str = "...";
const MAX_POOL_NAME: usize = 253;
const UUID_BYTES: usize = 36;

/// Validates the name of a driver.
pub fn validate_driver(driver: &Field<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(driver, errors);
}

/// Validates the name of a pool: subdomains separated by slashes.
pub fn validate_pool(pool: &Field<'_>, errors: &mut ErrorList) {
    if !require_text(pool, errors) {
        return;
    }
    if pool.text().len() > MAX_POOL_NAME {
        errors.push(pool.too_long(MAX_POOL_NAME));
    }
    for part in pool.text().split('/') {
        for message in names::dns_subdomain(part) {
            errors.push(pool.invalid_value(part, message));
        }
    }
}

/// Validates the share ID of a device, if any: a lower-case UUID.
pub fn validate_share(share: &Field<'_>, errors: &mut ErrorList) {
    if !share.is_set() {
        return;
    }
    if let Some(wrong) = uuid_error(share.text()) {
        errors.push(share.invalid(format!("error validating uid: {wrong}")));
    } else if share.text().len() != UUID_BYTES || share.text() != share.text().to_lowercase() {
        errors.push(share.invalid(
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` \
             with lowercase hexadecimal characters",
        ));
    }
}

/// Returns the error in a UUID, in any of its forms: plain, without dashes, in braces, or after
/// `urn:uuid:`.
fn uuid_error(text: &str) -> Option<String> {
    const URN: &str = "urn:uuid:";
    let bytes = text.as_bytes();
    let inner = match bytes.len() {
        UUID_BYTES | 32 => bytes,
        38 => match bytes {
            [b'{', inner @ .., b'}'] => inner,
            _ => return Some("invalid bracketed UUID format".to_owned()),
        },
        45 => {
            let (prefix, inner) = bytes.split_at(URN.len());
            if !prefix.eq_ignore_ascii_case(URN.as_bytes()) {
                let shown = go_quote(&String::from_utf8_lossy(prefix));
                return Some(format!("invalid urn prefix: {shown}"));
            }
            inner
        }
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let has_dashes = inner.len() == UUID_BYTES;
    let is_right = inner.iter().zip(0..).all(|(byte, index)| {
        let is_dash = has_dashes && matches!(index, 8 | 13 | 18 | 23);
        if is_dash {
            *byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    });
    (!is_right).then(|| "invalid UUID format".to_owned())
}

/// Returns the name of an attribute or a capacity as paths of errors show it. The middle of a name
/// above the limit is cut.
pub fn shown_name(name: &str) -> Cow<'_, str> {
    const MOST: usize = MAX_DOMAIN + 1 + MAX_IDENTIFIER;
    const KEPT: usize = MOST - CUT.len();
    if name.len() <= MOST {
        return name.into();
    }
    let bytes = name.as_bytes();
    let (start, _) = bytes.split_at(KEPT - KEPT / 2);
    let (_, end) = bytes.split_at(bytes.len() - KEPT / 2);
    let [start, end] = [start, end].map(String::from_utf8_lossy);
    format!("{start}{CUT}{end}").into()
}

/// Validates the name of an attribute or a capacity: an identifier with an optional domain before
/// it. Errors have the path of the map.
pub fn validate_qualified(name: &str, place: &Field<'_>, errors: &mut ErrorList) {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(identifier), None, _) => validate_identifier(identifier, place, errors),
        (Some(domain), Some(identifier), None) => {
            if domain.is_empty() {
                errors.push(place.invalid_value("", "the domain must not be empty"));
            } else {
                validate_domain(domain, place, errors);
            }
            if identifier.is_empty() {
                errors.push(place.invalid_value("", "the name must not be empty"));
            } else {
                validate_identifier(identifier, place, errors);
            }
        }
        // Kubernetes accepts names with more parts.
        _ => {}
    }
}

fn validate_domain(domain: &str, place: &Field<'_>, errors: &mut ErrorList) {
    if domain.len() > MAX_DOMAIN {
        errors.push(place.too_long(MAX_DOMAIN));
    }
    for message in names::dns_subdomain(&domain.to_lowercase()) {
        errors.push(place.invalid_value(domain, message));
    }
}

fn validate_identifier(identifier: &str, place: &Field<'_>, errors: &mut ErrorList) {
    if identifier.len() > MAX_IDENTIFIER {
        errors.push(place.too_long(MAX_IDENTIFIER));
    }
    for message in c_identifier(identifier) {
        errors.push(place.invalid_value(identifier, message));
    }
}

/// Validates the name of an attribute, which must have a domain.
pub fn validate_fully_qualified(attribute: &Field<'_>, errors: &mut ErrorList) {
    validate_qualified(attribute.text(), attribute, errors);
    if !attribute.text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(attribute.invalid(detail));
    }
}

/// The names of a claim's requests and their subrequests.
pub struct Requests<'c> {
    names: HashMap<&'c str, HashSet<&'c str>>,
}

impl<'c> Requests<'c> {
    /// Collects the names in a list of requests.
    pub fn of(requests: &Field<'c>) -> Requests<'c> {
        fn name(value: &serde_json::Value) -> &str {
            let name = value.get("name").and_then(|name| name.as_str());
            name.unwrap_or_default()
        }
        let mut names: HashMap<&str, HashSet<&str>> = HashMap::new();
        for request in requests.list() {
            let below = request.get("firstAvailable");
            let below = below.and_then(|list| list.as_array());
            let below = below.into_iter().flatten().map(name);
            names.entry(name(request)).or_default().extend(below);
        }
        Requests { names }
    }

    fn has(&self, text: &str) -> bool {
        let (request, below) = match text.split_once('/') {
            Some((request, below)) => (request, Some(below)),
            None => (text, None),
        };
        let names = self.names.get(request);
        names.is_some_and(|names| below.is_none_or(|below| names.contains(below)))
    }

    /// Validates a reference to a request.
    pub fn validate(&self, text: &Field<'_>, errors: &mut ErrorList) {
        let parts = text.text().split('/');
        if parts.clone().count() <= 2 {
            for part in parts {
                for message in names::dns_label(part) {
                    errors.push(text.invalid_value(part, message));
                }
            }
        }
        if !self.has(text.text()) {
            errors.push(text.invalid_value(
                text.text(),
                "must be the name of a request in the claim or the name of a request and a \
                 subrequest separated by '/'",
            ));
        }
    }
}
