//! IP addresses and CIDRs, in the forms that Kubernetes accepts.
//!
//! Kubernetes has always accepted leading zeros and IPv4-mapped IPv6 addresses. New values may have
//! neither; stored ones may keep them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::field::Field;

use api::error_list::ErrorList;

/// Parses an address in any form that Kubernetes ever accepted.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return parse_v6(text).map(IpAddr::V6);
    }
    parse_v4(text).map(IpAddr::V4)
}

/// Parses an IPv4 address, whose numbers may have leading zeros.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parse_decimal(parts.next()?)?.try_into().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Parses a number of digits only, without a sign.
fn parse_decimal(text: &str) -> Option<u32> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// Parses an IPv6 address. Its numbers may have leading zeros, and the last two may be an IPv4
/// address.
fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let (before, after) = match text.split_once("::") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let mut front = parse_segments(before, after.is_none())?;
    if let Some(after) = after {
        let back = parse_segments(after, true)?;
        // `::` stands for at least one number.
        let left_out = 8_usize.checked_sub(front.len() + back.len())?;
        if left_out == 0 {
            return None;
        }
        front.resize(front.len() + left_out, 0);
        front.extend(back);
    }
    let segments: [u16; 8] = front.try_into().ok()?;
    Some(Ipv6Addr::from(segments))
}

/// Parses numbers separated by colons. If the text ends the address, the last one may be an IPv4
/// address.
fn parse_segments(text: &str, is_end: bool) -> Option<Vec<u16>> {
    let mut segments = Vec::new();
    if text.is_empty() {
        return Some(segments);
    }
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        if part.contains('.') && is_end && parts.peek().is_none() {
            let [a, b, c, d] = parse_v4(part)?.octets();
            segments.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        } else {
            let are_digits = part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u16::from_str_radix(part, 16).ok();
            segments.push(number.filter(|_| are_digits)?);
        }
    }
    Some(segments)
}

/// Reports whether an address is IPv4 or IPv4-mapped IPv6.
pub fn is_v4(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(_))
}

/// A CIDR: all addresses that have the first bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address as written, which need not be the first one.
    pub address: IpAddr,
    /// The length of the prefix in bits.
    pub bits: u32,
}

impl Range {
    /// Parses a CIDR in any form that Kubernetes ever accepted.
    pub fn parse(text: &str) -> Option<Range> {
        let (address, bits) = text.split_once('/')?;
        let address = parse_address(address)?;
        let bits = parse_decimal(bits)?;
        (bits <= width(address)).then_some(Range { address, bits })
    }

    /// Returns the first address.
    pub fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                Ipv4Addr::from(u32::from(address) & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                Ipv6Addr::from(u128::from(address) & mask).into()
            }
        }
    }

    /// Reports whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let Range { bits, .. } = *self;
        let address = match self.address {
            IpAddr::V4(_) => address.to_canonical(),
            IpAddr::V6(_) => address,
        };
        width(address) == width(self.address) && Range { address, bits }.first() == self.first()
    }

    fn has_bits_beyond(&self) -> bool {
        self.first() != self.address
    }

    /// Reports whether its address is IPv4 or IPv4-mapped IPv6.
    pub fn is_v4(&self) -> bool {
        is_v4(self.address)
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns the canonical text of an address. IPv4-mapped addresses stay IPv6.
fn canonical(address: IpAddr) -> String {
    address.to_string()
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Validates an address in a field that is older than the strict rules. A value that the stored
/// object has too is skipped. Returns the address if it can be parsed.
pub fn validate_legacy_address(
    field: &Field<'_>,
    stored: &HashSet<&str>,
    errors: &mut ErrorList,
) -> Option<IpAddr> {
    let text = field.text();
    let address = parse_address(text);
    if stored.contains(text) {
        return address;
    }
    let Some(parsed) = address else {
        errors.push(field.invalid_value(
            text,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
        return None;
    };
    // The standard library accepts strict forms only.
    if text.parse::<IpAddr>().is_err() {
        errors.push(field.invalid("must not have leading 0s"));
    } else if is_mapped(parsed) {
        errors.push(field.invalid("must not be an IPv4-mapped IPv6 address"));
    }
    address
}

/// Validates an address that must be in canonical form. Returns it if it can be parsed.
pub fn validate_address(field: &Field<'_>, errors: &mut ErrorList) -> Option<IpAddr> {
    let before = errors.reported();
    let address = validate_legacy_address(field, &HashSet::new(), errors)?;
    let expected = canonical(address);
    if errors.reported() == before && field.text() != expected {
        errors.push(field.invalid(format!("must be in canonical form (\"{expected}\")")));
    }
    Some(address)
}

/// Validates a CIDR in a field that is older than the strict rules. A value that the stored object
/// has too keeps its form. Returns the CIDR if it can be parsed.
pub fn validate_legacy_range(
    field: &Field<'_>,
    stored: &HashSet<&str>,
    errors: &mut ErrorList,
) -> Option<Range> {
    let text = field.text();
    validate_range_text(field, text, stored.contains(text), errors)
}

/// Validates a CIDR that is a part of a field's value. With `keeps_form`, any form is valid.
pub fn validate_range_text(
    field: &Field<'_>,
    text: &str,
    keeps_form: bool,
    errors: &mut ErrorList,
) -> Option<Range> {
    let Some(range) = Range::parse(text) else {
        errors.push(field.invalid_value(
            text,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ));
        return None;
    };
    if keeps_form {
        return Some(range);
    }
    let (address, bits) = text.split_once('/').unwrap_or_default();
    if address.parse::<IpAddr>().is_err() || bits != range.bits.to_string() {
        let why = "must not have leading 0s in IP or prefix length";
        errors.push(field.invalid_value(text, why));
    } else if is_mapped(range.address) {
        errors.push(field.invalid_value(text, "must not have an IPv4-mapped IPv6 address"));
    } else if range.has_bits_beyond() {
        let why = "must not have bits set beyond the prefix length";
        errors.push(field.invalid_value(text, why));
    }
    Some(range)
}

/// Validates a CIDR that must be in canonical form. Returns it if it can be parsed.
pub fn validate_range(field: &Field<'_>, errors: &mut ErrorList) -> Option<Range> {
    let before = errors.reported();
    let range = validate_legacy_range(field, &HashSet::new(), errors)?;
    let expected = format!("{}/{}", canonical(range.address), range.bits);
    if errors.reported() == before && field.text() != expected {
        errors.push(field.invalid(format!("must be in canonical form (\"{expected}\")")));
    }
    Some(range)
}

/// Validates that an address can belong to a host on a network.
pub fn validate_non_special_ip(field: &Field<'_>, address: IpAddr, errors: &mut ErrorList) {
    let address = address.to_canonical();
    if address.is_unspecified() {
        let why = format!("may not be unspecified ({})", field.text());
        errors.push(field.invalid(why));
    }
    if address.is_loopback() {
        errors.push(field.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    let (is_link_local, is_link_local_group) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            matches!(address.octets(), [224, 0, 0, _]),
        ),
        IpAddr::V6(address) => (
            address.is_unicast_link_local(),
            matches!(address.octets(), [0xff, second, ..] if second & 0x0f == 2),
        ),
    };
    if is_link_local {
        let why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(field.invalid(why));
    }
    if is_link_local_group {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(field.invalid(why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn errors(text: &str, rule: impl Fn(&Field<'_>, &mut ErrorList)) -> String {
        let value = Value::from(text);
        let mut errors = ErrorList::new();
        rule(&Field::named("f", Some(&value)), &mut errors);
        let texts: Vec<String> = errors.into_iter().map(|error| error.detail).collect();
        texts.join("; ")
    }

    #[test]
    fn addresses_are_read_as_ever() {
        for good in [
            "1.2.3.4",
            "001.02.3.4",
            "::",
            "1::",
            "::1",
            "1:2:3:4:5:6:7:8",
            "00001::",
            "::ffff:1.02.3.4",
            "1:2:3:4:5:6:7::",
        ] {
            assert!(parse_address(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.+4",
            "1.2.3.",
            ":",
            ":::",
            "1:2",
            "1::2::3",
            "1:2:3:4:5:6:7:8::",
            "::fffff",
            "::1%eth0",
            "1.2.3.4::",
            "1:",
            "::1:",
        ] {
            assert!(parse_address(bad).is_none(), "{bad}");
        }
    }

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn new_addresses_have_one_form() {
        let legacy = |text| {
            errors(text, |field, errors| {
                let _ = validate_legacy_address(field, &HashSet::new(), errors);
            })
        };
        assert_eq!(legacy("2001:DB8::0:1"), "");
        assert_eq!(legacy("1.02.3.4"), "must not have leading 0s");
        assert_eq!(legacy("::00001"), "must not have leading 0s");
        assert_eq!(
            legacy("::ffff:1.2.3.4"),
            "must not be an IPv4-mapped IPv6 address"
        );
        let strict = |text| {
            errors(text, |field, errors| {
                let _ = validate_address(field, errors);
            })
        };
        assert_eq!(
            strict("2001:DB8::0:1"),
            "must be in canonical form (\"2001:db8::1\")"
        );
        let range = |text| {
            errors(text, |field, errors| {
                let _ = validate_range(field, errors);
            })
        };
        assert_eq!(range("1.2.3.0/24"), "");
        assert_eq!(range("0.0.0.0/0"), "");
        assert_eq!(
            range("1.2.3.4/24"),
            "must not have bits set beyond the prefix length"
        );
        assert_eq!(
            range("1.2.3.0/024"),
            "must not have leading 0s in IP or prefix length"
        );
        assert_eq!(
            range("2001:DB8::/64"),
            "must be in canonical form (\"2001:db8::/64\")"
        );
    }
}
