//! Validation of the cluster IPs and IP families of Services.

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldErrorKind;
use api::object::Object;
use serde_json::Value;

use super::super::addresses::{is_v4, parse_address, validate_legacy_address};
use super::super::enums::{must_be_one_of, validate_one_of};
use super::{Service, stored_texts};
use api::error_list::ErrorList;

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const NO_CHANGE: &str = "may not change once set";

/// Validates cluster IPs, families and family policy, which depend on each other.
pub(super) fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let service = Service::of(object);
    if service.kind == "ExternalName" {
        return;
    }
    let spec = &service.spec;
    let families = spec.member("ipFamilies");
    let policy = spec.member("ipFamilyPolicy");
    let (first, ips) = (spec.member("clusterIP"), spec.member("clusterIPs"));
    let reported = errors.reported();
    validate_first(&first, &ips, errors);
    let mut seen = HashSet::new();
    for family in families.items() {
        must_be_one_of(&family, FAMILIES, errors);
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    validate_one_of(&policy, POLICIES, errors);
    let existing = stored_texts(stored, "clusterIPs");
    let mut is_readable = true;
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if ips.len() > 1 {
                errors.push(ips.invalid("'None' must be the first and only value"));
                is_readable = false;
            }
            continue;
        }
        let before = errors.reported();
        validate_legacy_address(&ip, &existing, errors);
        is_readable &= errors.reported() == before;
    }
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
    if !is_readable {
        return;
    }
    let mut texts = ips.items();
    if let Some(place) = texts.position(|ip| parse_address(ip.text()).is_none())
        && ips.len() > 1
    {
        let why = format!("failed to check for dual stack with error:invalid IP[{place}]: None");
        errors.push(ips.fault(FieldErrorKind::Internal, why));
    }
    if ips.len() > 1 && !has_both_families(&ips) {
        errors.push(ips.invalid("may specify no more than one IP for each IP family"));
    }
    if !service.is_headless() {
        validate_families(&ips, &families, errors);
    }
    let had = stored_texts(stored, "ipFamilies").len();
    let releases = policy.text() != "SingleStack" && (1..had).contains(&families.len());
    if releases && errors.reported() == reported {
        errors.push(policy.invalid("must be 'SingleStack' to release the secondary IP family"));
    }
}

fn validate_first(first: &Field<'_>, ips: &Field<'_>, errors: &mut ErrorList) {
    let has_first = !first.text().is_empty();
    match (has_first, ips.list().first()) {
        (true, None) => errors.push(ips.required("")),
        (true, Some(ip)) if *ip != first.text() => {
            errors.push(ips.invalid("first value must match `clusterIP`"));
        }
        (false, Some(_)) => {
            errors.push(ips.invalid("must be empty when `clusterIP` is not specified"));
        }
        _ => {}
    }
}

fn has_both_families(ips: &Field<'_>) -> bool {
    let families = ips.items().map(|ip| parse_address(ip.text()).map(is_v4));
    let families: HashSet<Option<bool>> = families.collect();
    families == HashSet::from([Some(true), Some(false)])
}

fn validate_families(ips: &Field<'_>, families: &Field<'_>, errors: &mut ErrorList) {
    for (index, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let family = family.text();
        let is_v6 = parse_address(ip.text()).is_some_and(|address| !is_v4(address));
        if FAMILIES.contains(&family) && (family == "IPv6") != is_v6 {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(ip.invalid(why));
        }
    }
}

/// Validates an update of cluster IPs and families, the first of which are immutable.
pub(super) fn validate_changes(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let (now, before) = (Service::of(object), Service::of(stored));
    if now.kind == "ExternalName" || before.kind == "ExternalName" {
        return;
    }
    if !(now.is_headless() && before.is_headless()) {
        validate_ip_changes(&now, &before, errors);
    }
    let is_free =
        |service: &Service<'_>| service.is_headless() && service.spec.member("selector").is_empty();
    if !is_free(&now) && !is_free(&before) {
        validate_family_changes(&now, &before, errors);
    }
}

fn differs(one: Option<&Value>, other: Option<&Value>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

fn validate_ip_changes(now: &Service<'_>, before: &Service<'_>, errors: &mut ErrorList) {
    let ips = now.spec.member("clusterIPs");
    let (new, old) = (ips.list(), before.spec.member("clusterIPs").list());
    let all = || ips.value().cloned().unwrap_or(Value::Null);
    if new.len() == old.len() {
        for (index, _) in new.iter().zip(old).enumerate().filter(|(_, (a, b))| a != b) {
            errors.push(ips.index(index).invalid_value(all(), NO_CHANGE));
        }
        return;
    }
    if old.len() > new.len() && new.is_empty() {
        let why = "primary clusterIP can not be unset";
        errors.push(ips.index(0).invalid_value(all(), why));
    }
    if differs(new.first(), old.first()) {
        errors.push(ips.index(0).invalid_value(all(), NO_CHANGE));
    }
    if old.len() > new.len() && new.len() == 1 {
        validate_release(now, "clusterIP", errors);
    }
}

fn validate_family_changes(now: &Service<'_>, before: &Service<'_>, errors: &mut ErrorList) {
    let families = now.spec.member("ipFamilies");
    let (new, old) = (families.list(), before.spec.member("ipFamilies").list());
    let all = || families.value().cloned().unwrap_or(Value::Null);
    if new.len() == old.len() {
        for _ in new.iter().zip(old).filter(|(a, b)| a != b) {
            errors.push(families.index(0).invalid_value(all(), NO_CHANGE));
        }
        return;
    }
    if old.len() > new.len() && new.is_empty() {
        let why = "primary ipFamily can not be unset";
        errors.push(families.index(0).invalid_value(all(), why));
    }
    if differs(new.first(), old.first()) {
        errors.push(families.index(0).invalid(NO_CHANGE));
    }
    if old.len() > new.len() && new.len() == 1 {
        validate_release(now, "ipFamily", errors);
    }
}

/// Validates that the policy is SingleStack when the second address or family is released.
fn validate_release(now: &Service<'_>, what: &str, errors: &mut ErrorList) {
    let policy = now.spec.member("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        errors.push(policy.invalid(format!(
            "must be set to 'SingleStack' when releasing the secondary {what}"
        )));
    }
}
