//! Validation of EndpointSlices.

use std::collections::HashSet;

use api::error_list::ErrorList;
use api::field::Field;
use api::names;
use api::object::Object;

use super::addresses::{is_v4, validate_address, validate_legacy_address, validate_non_special_ip};
use super::enums::{require_one_of, validate_one_of};
use super::immutable::validate_immutable;
use super::ports::{PROTOCOLS, validate_application};
use super::text_formats::validate_fully_qualified_domain;
use super::{report, too_many};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// Validates an EndpointSlice.
pub fn validate_endpointslice(object: &Object, errors: &mut ErrorList) {
    validate_slice(object, None, errors);
}

/// Validates an update of an EndpointSlice, whose address type is immutable.
pub fn validate_endpointslice_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_slice(object, Some(stored), errors);
    let kind = Field::of(object, "addressType");
    validate_immutable(&kind, &Field::of(stored, "addressType"), errors);
}

fn validate_slice(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let kind = Field::of(object, "addressType");
    require_one_of(&kind, &["FQDN", "IPv4", "IPv6"], errors);
    validate_slice_ports(&Field::of(object, "ports"), errors);
    let endpoints = Field::of(object, "endpoints");
    // Unchanged endpoints are skipped.
    if stored.is_some_and(|stored| stored.0.get("endpoints") == endpoints.value()) {
        return;
    }
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(too_many(&endpoints, MAX_ENDPOINTS));
        return;
    }
    for endpoint in endpoints.items() {
        validate_slice_addresses(&endpoint, kind.text(), errors);
        let node = endpoint.member("nodeName");
        if node.is_set() {
            report(&node, names::dns_subdomain(node.text()), errors);
        }
        let hostname = endpoint.member("hostname");
        if hostname.is_set() {
            report(&hostname, names::dns_label(hostname.text()), errors);
        }
        validate_hints(&endpoint.member("hints"), errors);
    }
}

fn validate_slice_ports(ports: &Field<'_>, errors: &mut ErrorList) {
    if ports.len() > MAX_PORTS {
        errors.push(too_many(ports, MAX_PORTS));
        return;
    }
    let ports: Vec<Field<'_>> = ports.items().collect();
    let mut seen = HashSet::new();
    for port in &ports {
        let name = port.member("name");
        if !name.text().is_empty() {
            report(&name, names::dns_label(name.text()), errors);
        }
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let protocol = port.member("protocol");
        validate_one_of(&protocol, PROTOCOLS, errors);
        if !protocol.is_set() {
            errors.push(protocol.required(""));
        }
        validate_application(port, errors);
    }
}

fn validate_slice_addresses(endpoint: &Field<'_>, kind: &str, errors: &mut ErrorList) {
    let addresses = endpoint.member("addresses");
    if addresses.is_empty() {
        errors.push(addresses.required("must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(too_many(&addresses, MAX_ADDRESSES));
    }
    for address in addresses.items() {
        match kind {
            "IPv4" | "IPv6" => validate_slice_ip(&addresses, &address, kind, errors),
            "FQDN" => validate_fully_qualified_domain(&address, errors),
            _ => {}
        }
    }
}

fn validate_slice_ip(
    addresses: &Field<'_>,
    address: &Field<'_>,
    kind: &str,
    errors: &mut ErrorList,
) {
    let before = errors.reported();
    // Only IPv6 addresses have a canonical form that differs from other valid ones.
    let parsed = match kind {
        "IPv6" => validate_address(address, errors),
        _ => validate_legacy_address(address, &HashSet::new(), errors),
    };
    let Some(parsed) = parsed.filter(|_| errors.reported() == before) else {
        return;
    };
    if is_v4(parsed) != (kind == "IPv4") {
        let why = format!("must be an {kind} address");
        errors.push(addresses.invalid_value(address.text(), why));
    }
    validate_non_special_ip(address, parsed, errors);
}

/// Validates that the zones and nodes of an endpoint's hints are unique.
fn validate_hints(hints: &Field<'_>, errors: &mut ErrorList) {
    for list in ["forZones", "forNodes"] {
        let hints = hints.member(list);
        if hints.len() > MAX_HINTS {
            errors.push(too_many(&hints, MAX_HINTS));
            return;
        }
        let hints: Vec<Field<'_>> = hints.items().collect();
        let mut seen = HashSet::new();
        for hint in &hints {
            let name = hint.member("name");
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
            let wrong = match list {
                "forZones" => names::label_value(name.text()),
                _ => names::dns_subdomain(name.text()),
            };
            report(&name, wrong, errors);
        }
    }
}
