//! What is refused of Endpoints and EndpointSlices.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::Faults;
use super::addresses::{is_v4, validate_address, validate_legacy_address};
use super::batch::too_many;
use super::counts::validate_immutable;
use super::formats::{one_of, port_number, report, require_text, validate_fully_qualified_domain};
use super::services::validate_non_special_ip;
use super::texts::require_one_of;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// The faults of new Endpoints.
pub fn validate_endpoints(object: &Object) -> Faults {
    validate_subsets(object, &[])
}

/// The faults of a change to Endpoints. Subsets that stay are not looked at.
pub fn validate_endpoints_update(object: &Object, stored: &Object) -> Faults {
    if object.0.get("subsets") == stored.0.get("subsets") {
        return Faults::new();
    }
    let mut existing = Vec::new();
    for subset in list(stored.0.get("subsets")) {
        for name in ["addresses", "notReadyAddresses"] {
            let addresses = list(subset.get(name)).iter();
            existing.extend(addresses.filter_map(|address| address.get("ip")?.as_str()));
        }
    }
    validate_subsets(object, &existing)
}

fn list(value: Option<&Value>) -> &[Value] {
    let list = value.and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn validate_subsets(object: &Object, existing: &[&str]) -> Faults {
    let mut faults = Faults::new();
    for subset in Field::of(object, "subsets").items() {
        let addresses = [
            subset.member("addresses"),
            subset.member("notReadyAddresses"),
        ];
        if addresses.iter().all(Field::is_empty) {
            faults.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in addresses.iter().flat_map(Field::items) {
            validate_endpoint_address(&address, existing, &mut faults);
        }
        let ports = subset.member("ports");
        for port in ports.items() {
            validate_endpoint_port(&port, ports.len() > 1, &mut faults);
        }
    }
    faults
}

fn validate_endpoint_address(address: &Field<'_>, existing: &[&str], faults: &mut Faults) {
    let ip = address.member("ip");
    let parsed = validate_legacy_address(&ip, existing, faults);
    let hostname = address.member("hostname");
    if !hostname.text().is_empty() {
        report(&hostname, names::dns_label(hostname.text()), faults);
    }
    let node = address.member("nodeName");
    if node.is_set() {
        report(&node, names::dns_subdomain(node.text()), faults);
    }
    match parsed {
        Some(parsed) => validate_non_special_ip(&ip, parsed, faults),
        None => faults.push(ip.invalid_value(ip.text(), "must be a valid IP address")),
    }
}

fn validate_endpoint_port(port: &Field<'_>, needs_name: bool, faults: &mut Faults) {
    let name = port.member("name");
    if !name.text().is_empty() {
        report(&name, names::dns_label(name.text()), faults);
    } else if needs_name {
        faults.push(name.required(""));
    }
    validate_number_and_protocol(port, faults);
    validate_application(port, faults);
}

/// The number and the protocol of a port of a Service or of its Endpoints.
pub(super) fn validate_number_and_protocol(port: &Field<'_>, faults: &mut Faults) {
    let number = port.member("port");
    let value = number.int().unwrap_or_default();
    let wrong = port_number(value).into_iter();
    faults.extend(wrong.map(|message| number.invalid_value(value, message)));
    require_one_of(&port.member("protocol"), PROTOCOLS, faults);
}

/// The application that a port is for.
pub(super) fn validate_application(port: &Field<'_>, faults: &mut Faults) {
    let application = port.member("appProtocol");
    if application.is_set() {
        report(
            &application,
            names::qualified_name(application.text()),
            faults,
        );
    }
}

/// The faults of an EndpointSlice.
pub fn validate_endpointslice(object: &Object) -> Faults {
    validate_slice(object, None)
}

/// The faults of a change to an EndpointSlice, which keeps its type of addresses.
pub fn validate_endpointslice_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_slice(object, Some(stored));
    let kind = Field::of(object, "addressType");
    validate_immutable(&kind, &Field::of(stored, "addressType"), &mut faults);
    faults
}

fn validate_slice(object: &Object, stored: Option<&Object>) -> Faults {
    let mut faults = Faults::new();
    let kind = Field::of(object, "addressType");
    if require_text(&kind, &mut faults) {
        one_of(&kind, &["FQDN", "IPv4", "IPv6"], &mut faults);
    }
    validate_slice_ports(&Field::of(object, "ports"), &mut faults);
    let endpoints = Field::of(object, "endpoints");
    // Endpoints that stay are not looked at.
    if stored.is_some_and(|stored| stored.0.get("endpoints") == endpoints.value()) {
        return faults;
    }
    if endpoints.len() > MAX_ENDPOINTS {
        faults.push(too_many(&endpoints, MAX_ENDPOINTS));
        return faults;
    }
    for endpoint in endpoints.items() {
        validate_slice_addresses(&endpoint, kind.text(), &mut faults);
        let node = endpoint.member("nodeName");
        if node.is_set() {
            report(&node, names::dns_subdomain(node.text()), &mut faults);
        }
        let hostname = endpoint.member("hostname");
        if hostname.is_set() {
            report(&hostname, names::dns_label(hostname.text()), &mut faults);
        }
        validate_hints(&endpoint.member("hints"), &mut faults);
    }
    faults
}

fn validate_slice_ports(ports: &Field<'_>, faults: &mut Faults) {
    if ports.len() > MAX_PORTS {
        faults.push(too_many(ports, MAX_PORTS));
        return;
    }
    let ports: Vec<Field<'_>> = ports.items().collect();
    let mut seen = HashSet::new();
    for port in &ports {
        let name = port.member("name");
        if !name.text().is_empty() {
            report(&name, names::dns_label(name.text()), faults);
        }
        if !seen.insert(name.text()) {
            faults.push(name.duplicate());
        }
        let protocol = port.member("protocol");
        if protocol.is_set() {
            one_of(&protocol, PROTOCOLS, faults);
        } else {
            faults.push(protocol.required(""));
        }
        validate_application(port, faults);
    }
}

fn validate_slice_addresses(endpoint: &Field<'_>, kind: &str, faults: &mut Faults) {
    let addresses = endpoint.member("addresses");
    if addresses.is_empty() {
        faults.push(addresses.required("must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        faults.push(too_many(&addresses, MAX_ADDRESSES));
    }
    for address in addresses.items() {
        match kind {
            "IPv4" | "IPv6" => validate_slice_ip(&addresses, &address, kind, faults),
            "FQDN" => validate_fully_qualified_domain(&address, faults),
            _ => {}
        }
    }
}

fn validate_slice_ip(addresses: &Field<'_>, address: &Field<'_>, kind: &str, faults: &mut Faults) {
    let before = faults.len();
    // Only IPv6 has more than one form.
    let parsed = match kind {
        "IPv6" => validate_address(address, faults),
        _ => validate_legacy_address(address, &[], faults),
    };
    let Some(parsed) = parsed.filter(|_| faults.len() == before) else {
        return;
    };
    if is_v4(parsed) != (kind == "IPv4") {
        let why = format!("must be an {kind} address");
        faults.push(addresses.invalid_value(address.text(), why));
    }
    validate_non_special_ip(address, parsed, faults);
}

/// The zones and nodes that an endpoint is for, each once.
fn validate_hints(hints: &Field<'_>, faults: &mut Faults) {
    for list in ["forZones", "forNodes"] {
        let hints = hints.member(list);
        if hints.len() > MAX_HINTS {
            faults.push(too_many(&hints, MAX_HINTS));
            return;
        }
        let hints: Vec<Field<'_>> = hints.items().collect();
        let mut seen = HashSet::new();
        for hint in &hints {
            let name = hint.member("name");
            if !seen.insert(name.text()) {
                faults.push(name.duplicate());
            }
            let wrong = match list {
                "forZones" => names::label_value(name.text()),
                _ => names::dns_subdomain(name.text()),
            };
            report(&name, wrong, faults);
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
