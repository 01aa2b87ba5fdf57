//! Validation of Endpoints.

use std::collections::HashSet;

use api::error_list::ErrorList;
use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::addresses::{validate_legacy_address, validate_non_special_ip};
use super::ports::{validate_application, validate_number_and_protocol};
use super::report;

/// Validates new Endpoints.
pub fn validate_endpoints(object: &Object, errors: &mut ErrorList) {
    validate_subsets(object, &HashSet::new(), errors);
}

/// Validates an update of Endpoints. Unchanged subsets are skipped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::endpoints;
    use crate::defaults::discovery::endpointslice;
    use crate::recorded::{Functions, check};
    use crate::validation::discovery::{validate_endpointslice, validate_endpointslice_update};

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
