//! Warnings about Endpoints and EndpointSlices.

use api::field::Field;
use api::object::Object;

use super::Warnings;
use super::addresses::warn_of_address;
use super::networking::warn_of_items;

/// Returns the warnings about Endpoints. Those of the endpoints controller are skipped, as they
/// have canonical addresses.
pub fn of_endpoints(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if label(object, "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
        return warnings.take();
    }
    for subset in Field::of(object, "subsets").items() {
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.member(list).items() {
                warn_of_address(&address.member("ip"), &warnings);
            }
        }
    }
    warnings.take()
}

/// Returns the warnings about an EndpointSlice. Those of the controllers are skipped, as they have
/// canonical addresses.
pub fn of_endpointslice(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if stored.is_none() && object.text(&["addressType"]) == "FQDN" {
        warnings.add("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let controllers = [
        "endpointslice-controller.k8s.io",
        "endpointslicemirroring-controller.k8s.io",
    ];
    if controllers.contains(&label(object, "endpointslice.kubernetes.io/managed-by")) {
        return warnings.take();
    }
    for endpoint in Field::of(object, "endpoints").items() {
        warn_of_items(&endpoint.member("addresses"), warn_of_address, &warnings);
    }
    warnings.take()
}

fn label<'o>(object: &'o Object, name: &str) -> &'o str {
    object.text(&["metadata", "labels", name])
}
