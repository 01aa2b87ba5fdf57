//! Validation of IPAddresses and ServiceCIDRs.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::super::addresses::{validate_address, validate_range};
use super::super::report;
use super::super::required::require_valid;
use crate::types::internal::{internal_json, invalid_struct};
use api::error_list::ErrorList;

const IMMUTABLE: &str = "field is immutable";

/// Validates an IPAddress. Its name is an IP address, and it has a parent.
pub fn validate_ipaddress(object: &Object, errors: &mut ErrorList) {
    let metadata = Field::of(object, "metadata");
    for name in ["generateName", "name"] {
        let name = metadata.member(name);
        if !name.text().is_empty() {
            validate_address(&name, errors);
        }
    }
    let spec = Field::of(object, "spec");
    let parent = spec.member("parentRef");
    if !parent.is_set() {
        errors.push(parent.required(""));
        return;
    }
    let group = parent.member("group");
    if !group.text().is_empty() {
        report(&group, names::dns_subdomain(group.text()), errors);
    }
    for name in ["resource", "name"] {
        require_valid(&parent.member(name), names::path_segment, errors);
    }
    let namespace = parent.member("namespace");
    report(&namespace, names::path_segment(namespace.text()), errors);
}

/// Validates an update of an IPAddress, whose parent is immutable.
pub fn validate_ipaddress_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_ipaddress(object, errors);
    let spec = Field::of(object, "spec");
    let parent = spec.member("parentRef");
    if parent.value() != stored.at(&["spec", "parentRef"]) {
        errors.push(invalid_struct(
            &parent,
            "networking.v1.ParentReference",
            IMMUTABLE,
        ));
    }
}

/// Validates a ServiceCIDR, which has one CIDR, or one of each family.
pub fn validate_servicecidr(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let ranges = spec.member("cidrs");
    if ranges.is_empty() {
        errors.push(ranges.required("at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        let json = internal_json("networking.v1.ServiceCIDRSpec", spec.value());
        let why = "may only hold up to 2 values";
        errors.push(FieldError::invalid_document(ranges.path(), &json, why));
        return;
    }
    let mut families = Vec::new();
    for range in ranges.items() {
        let range = validate_range(&range, errors);
        families.extend(range.map(|range| range.is_v4()));
    }
    if matches!(families.as_slice(), [one, other] if one == other) {
        errors.push(ranges.invalid(
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
             2001:db8::/64",
        ));
    }
}

/// Validates an update of a ServiceCIDR, which may add a second CIDR.
pub fn validate_servicecidr_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (spec, before) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    let ranges = spec.member("cidrs");
    let (new, old) = (ranges.list(), before.member("cidrs").list());
    match (old.len(), new.len()) {
        (before, now) if before == now => {
            for (index, _) in new.iter().zip(old).enumerate().filter(|(_, (a, b))| a != b) {
                errors.push(ranges.index(index).invalid(IMMUTABLE));
            }
        }
        (1, 2) => {
            if new.first() != old.first() {
                errors.push(ranges.index(0).invalid(IMMUTABLE));
            }
            validate_servicecidr(object, errors);
        }
        _ => errors.push(ranges.invalid(IMMUTABLE)),
    }
}
