//! What is refused of Endpoints and EndpointSlices.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::addresses::{is_v4, validate_address, validate_legacy_address};
use super::batch::too_many;
use super::counts::validate_immutable;
use super::formats::{one_of, port_number, report, require_text, validate_fully_qualified_domain};
use super::services::validate_non_special_ip;
use super::texts::require_one_of;
use api::error_list::ErrorList;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// Adds the errors of new Endpoints.
pub fn validate_endpoints(object: &Object, errors: &mut ErrorList) {
    validate_subsets(object, &HashSet::new(), errors);
}

/// Adds the errors of a change to Endpoints. Subsets that stay are not looked at.
pub fn validate_endpoints_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    if object.0.get("subsets") == stored.0.get("subsets") {
        return;
    }
    let mut existing = HashSet::new();
    for subset in list(stored.0.get("subsets")) {
        for name in ["addresses", "notReadyAddresses"] {
            let addresses = list(subset.get(name)).iter();
            existing.extend(addresses.filter_map(|address| address.get("ip")?.as_str()));
        }
    }
    validate_subsets(object, &existing, errors);
}

fn list(value: Option<&Value>) -> &[Value] {
    let list = value.and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn validate_subsets(object: &Object, existing: &HashSet<&str>, errors: &mut ErrorList) {
    for subset in Field::of(object, "subsets").items() {
        let addresses = [
            subset.member("addresses"),
            subset.member("notReadyAddresses"),
        ];
        if addresses.iter().all(Field::is_empty) {
            errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in addresses.iter().flat_map(Field::items) {
            validate_endpoint_address(&address, existing, errors);
        }
        let ports = subset.member("ports");
        for port in ports.items() {
            validate_endpoint_port(&port, ports.len() > 1, errors);
        }
    }
}

fn validate_endpoint_address(
    address: &Field<'_>,
    existing: &HashSet<&str>,
    errors: &mut ErrorList,
) {
    let ip = address.member("ip");
    let parsed = validate_legacy_address(&ip, existing, errors);
    let hostname = address.member("hostname");
    if !hostname.text().is_empty() {
        report(&hostname, names::dns_label(hostname.text()), errors);
    }
    let node = address.member("nodeName");
    if node.is_set() {
        report(&node, names::dns_subdomain(node.text()), errors);
    }
    match parsed {
        Some(parsed) => validate_non_special_ip(&ip, parsed, errors),
        None => errors.push(ip.invalid_value(ip.text(), "must be a valid IP address")),
    }
}

fn validate_endpoint_port(port: &Field<'_>, needs_name: bool, errors: &mut ErrorList) {
    let name = port.member("name");
    if !name.text().is_empty() {
        report(&name, names::dns_label(name.text()), errors);
    } else if needs_name {
        errors.push(name.required(""));
    }
    validate_number_and_protocol(port, errors);
    validate_application(port, errors);
}

/// The number and the protocol of a port of a Service or of its Endpoints.
pub(super) fn validate_number_and_protocol(port: &Field<'_>, errors: &mut ErrorList) {
    let number = port.member("port");
    let value = number.int().unwrap_or_default();
    let wrong = port_number(value).into_iter();
    errors.extend(wrong.map(|message| number.invalid_value(value, message)));
    require_one_of(&port.member("protocol"), PROTOCOLS, errors);
}

/// The application that a port is for.
pub(super) fn validate_application(port: &Field<'_>, errors: &mut ErrorList) {
    let application = port.member("appProtocol");
    if application.is_set() {
        report(
            &application,
            names::qualified_name(application.text()),
            errors,
        );
    }
}

/// Adds the errors of an EndpointSlice.
pub fn validate_endpointslice(object: &Object, errors: &mut ErrorList) {
    validate_slice(object, None, errors);
}

/// Adds the errors of a change to an EndpointSlice, which keeps its type of addresses.
pub fn validate_endpointslice_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_slice(object, Some(stored), errors);
    let kind = Field::of(object, "addressType");
    validate_immutable(&kind, &Field::of(stored, "addressType"), errors);
}

fn validate_slice(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let kind = Field::of(object, "addressType");
    if require_text(&kind, errors) {
        one_of(&kind, &["FQDN", "IPv4", "IPv6"], errors);
    }
    validate_slice_ports(&Field::of(object, "ports"), errors);
    let endpoints = Field::of(object, "endpoints");
    // Endpoints that stay are not looked at.
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
        if protocol.is_set() {
            one_of(&protocol, PROTOCOLS, errors);
        } else {
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
    // Only IPv6 has more than one form.
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

/// The zones and nodes that an endpoint is for, each once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::endpoints;
    use crate::defaults::networking::endpointslice;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(
            include_str!("../../recorded/endpoints.json"),
            |path| match path.ends_with("/endpoints") {
                true => Functions {
                    defaults: Some(endpoints),
                    create: validate_endpoints,
                    update: Some(validate_endpoints_update),
                },
                false => Functions {
                    defaults: Some(endpointslice),
                    create: validate_endpointslice,
                    update: Some(validate_endpointslice_update),
                },
            },
        );
    }
}
