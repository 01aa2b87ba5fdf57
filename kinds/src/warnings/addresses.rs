//! Warnings about IP addresses and CIDRs in discouraged forms.

use std::net::IpAddr;

use api::field::Field;

use super::{Warnings, quoted, warn};
use crate::validation::addresses::{Range, parse_address};

/// Warns of an address that is not in canonical form. An invalid address gets no warning.
pub(super) fn warn_of_address(field: &Field<'_>, warnings: &Warnings) {
    let text = field.text();
    let Some(address) = parse_address(text) else {
        return;
    };
    if is_sloppy(text, address) {
        warn_of_form(field, "address", &shown(address), warnings);
    } else if address.is_ipv6() && address.to_string() != text {
        warn_of_spelling(field, "address", &shown(address), warnings);
    }
}

/// Warns of a CIDR that is not in canonical form. An invalid CIDR gets no warning.
pub(super) fn warn_of_range(field: &Field<'_>, warnings: &Warnings) {
    let text = field.text();
    let Some(range) = Range::parse(text) else {
        return;
    };
    let (address, bits) = text.split_once('/').unwrap_or_default();
    let first = format!("{}/{}", shown(range.first()), range.bits);
    let canonical = format!("{}/{}", range.address, range.bits);
    if is_sloppy(address, range.address) || bits != range.bits.to_string() {
        warn_of_form(field, "CIDR value", &first, warnings);
    } else if range.first() != range.address {
        let single = if range.address.is_ipv4() { 32 } else { 128 };
        let single = format!("{}/{single}", range.address);
        let (text, first, single) = (quoted(text), quoted(&first), quoted(&single));
        let detail = format!(
            "CIDR value {text} is ambiguous in this context (should be {first} or {single}?)"
        );
        warn(field, detail, warnings);
    } else if range.address.is_ipv6() && canonical != text {
        warn_of_spelling(field, "CIDR value", &canonical, warnings);
    }
}

/// Reports whether only Kubernetes' legacy parser reads the text as this address: it has leading
/// zeros, or is an IPv4-mapped IPv6 address. Stored objects may keep such texts.
fn is_sloppy(text: &str, address: IpAddr) -> bool {
    text.parse::<IpAddr>().is_err() || address.to_canonical() != address
}

fn shown(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

fn warn_of_form(field: &Field<'_>, what: &str, better: &str, warnings: &Warnings) {
    let what = match what {
        "address" => "IP address",
        other => other,
    };
    let (text, better) = (quoted(field.text()), quoted(better));
    let detail = format!("non-standard {what} {text} is invalid: use {better}");
    warn(field, detail, warnings);
}

fn warn_of_spelling(field: &Field<'_>, what: &str, better: &str, warnings: &Warnings) {
    let (text, better) = (quoted(field.text()), quoted(better));
    let detail = format!("IPv6 {what} {text} should be in RFC 5952 canonical format ({better})");
    warn(field, detail, warnings);
}
