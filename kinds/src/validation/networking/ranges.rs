//! What is refused of IPAddresses and ServiceCIDRs.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::super::Faults;
use super::super::addresses::{validate_address, validate_range};
use super::super::formats::report;
use super::super::internal::{internal_json, invalid_struct};
use super::super::texts::require_valid;

const IMMUTABLE: &str = "field is immutable";

/// The faults of an IPAddress, which is named by its address and belongs to an object.
pub fn validate_ipaddress(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let metadata = Field::of(object, "metadata");
    for name in ["generateName", "name"] {
        let name = metadata.member(name);
        if !name.text().is_empty() {
            validate_address(&name, &mut faults);
        }
    }
    let spec = Field::of(object, "spec");
    let parent = spec.member("parentRef");
    if !parent.is_set() {
        faults.push(parent.required(""));
        return faults;
    }
    let group = parent.member("group");
    if !group.text().is_empty() {
        report(&group, names::dns_subdomain(group.text()), &mut faults);
    }
    for name in ["resource", "name"] {
        require_valid(&parent.member(name), names::path_segment, &mut faults);
    }
    let namespace = parent.member("namespace");
    report(
        &namespace,
        names::path_segment(namespace.text()),
        &mut faults,
    );
    faults
}

/// The faults of a change to an IPAddress, which keeps its parent.
pub fn validate_ipaddress_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_ipaddress(object);
    let spec = Field::of(object, "spec");
    let parent = spec.member("parentRef");
    if parent.value() != stored.at(&["spec", "parentRef"]) {
        faults.push(invalid_struct(
            &parent,
            "networking.v1.ParentReference",
            IMMUTABLE,
        ));
    }
    faults
}

/// The faults of a ServiceCIDR: one range, or one of each family.
pub fn validate_servicecidr(object: &Object) -> Faults {
    let mut faults = Faults::new();
    let spec = Field::of(object, "spec");
    let ranges = spec.member("cidrs");
    if ranges.is_empty() {
        faults.push(ranges.required("at least one CIDR required"));
        return faults;
    }
    if ranges.len() > 2 {
        let json = internal_json("networking.v1.ServiceCIDRSpec", spec.value());
        let why = "may only hold up to 2 values";
        faults.push(FieldError::invalid_document(ranges.path(), &json, why));
        return faults;
    }
    let mut families = Vec::new();
    for range in ranges.items() {
        let range = validate_range(&range, &mut faults);
        families.extend(range.map(|range| range.is_v4()));
    }
    if matches!(families.as_slice(), [one, other] if one == other) {
        faults.push(ranges.invalid(
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
             2001:db8::/64",
        ));
    }
    faults
}

/// The faults of a change to a ServiceCIDR: a second range may be added.
pub fn validate_servicecidr_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = Faults::new();
    let (spec, before) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    let ranges = spec.member("cidrs");
    let (new, old) = (ranges.list(), before.member("cidrs").list());
    match (old.len(), new.len()) {
        (before, now) if before == now => {
            for (index, _) in new.iter().zip(old).enumerate().filter(|(_, (a, b))| a != b) {
                faults.push(ranges.index(index).invalid(IMMUTABLE));
            }
        }
        (1, 2) => {
            if new.first() != old.first() {
                faults.push(ranges.index(0).invalid(IMMUTABLE));
            }
            faults.extend(validate_servicecidr(object));
        }
        _ => faults.push(ranges.invalid(IMMUTABLE)),
    }
    faults
}
