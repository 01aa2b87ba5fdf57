//! IP addresses and ranges of them (CIDRs), as Kubernetes reads them.
//!
//! It always read numbers with leading zeros, and IPv4 addresses in the form of IPv6. New values
//! may have neither; stored ones may keep them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::field::Field;

use api::error_list::ErrorList;

/// An address in any form that was ever allowed.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return parse_v6(text).map(IpAddr::V6);
    }
    parse_v4(text).map(IpAddr::V4)
}

/// The four numbers of IPv4. They may have leading zeros.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parse_decimal(parts.next()?)?.try_into().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Digits only, without a sign.
fn parse_decimal(text: &str) -> Option<u32> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// IPv6, whose numbers may have leading zeros. The last two may be written as IPv4.
fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let (before, after) = match text.split_once("::") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let mut front = parse_segments(before, after.is_none())?;
    if let Some(after) = after {
        let back = parse_segments(after, true)?;
        // The dots stand for at least one number.
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

/// Numbers with colons between them. The last may be an IPv4 address, if the text ends there.
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

/// Whether an address belongs to IPv4. That includes those that are written as IPv6.
pub fn is_v4(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(_))
}

/// A range of addresses: all that have the first bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address as it was written.
    pub address: IpAddr,
    /// The number of bits.
    pub bits: u32,
}

impl Range {
    /// A range in any form that was ever allowed.
    pub fn parse(text: &str) -> Option<Range> {
        let (address, bits) = text.split_once('/')?;
        let address = parse_address(address)?;
        let bits = parse_decimal(bits)?;
        (bits <= width(address)).then_some(Range { address, bits })
    }

    /// The first address.
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

    /// Whether an address is in the range.
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

    /// Whether its address belongs to IPv4, also in the form of IPv6.
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

/// An address as it should be written. IPv4 addresses stay in the form of IPv6.
fn canonical(address: IpAddr) -> String {
    address.to_string()
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Adds the errors of an address in a field that was there before its forms became strict. Values
/// that are among the stored ones are not looked at.
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
    // The strict form is that of the standard library.
    if text.parse::<IpAddr>().is_err() {
        errors.push(field.invalid("must not have leading 0s"));
    } else if is_mapped(parsed) {
        errors.push(field.invalid("must not be an IPv4-mapped IPv6 address"));
    }
    address
}

/// Adds the errors of an address, which has one form only.
pub fn validate_address(field: &Field<'_>, errors: &mut ErrorList) -> Option<IpAddr> {
    let before = errors.reported();
    let address = validate_legacy_address(field, &HashSet::new(), errors)?;
    let expected = canonical(address);
    if errors.reported() == before && field.text() != expected {
        errors.push(field.invalid(format!("must be in canonical form (\"{expected}\")")));
    }
    Some(address)
}

/// Adds the errors of a range in a field that was there before its forms became strict. Values that
/// are among the stored ones keep their form.
pub fn validate_legacy_range(
    field: &Field<'_>,
    stored: &HashSet<&str>,
    errors: &mut ErrorList,
) -> Option<Range> {
    let text = field.text();
    validate_range_text(field, text, stored.contains(text), errors)
}

/// Adds the errors of a range that is a part of a field's text.
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

/// Adds the errors of a range, which has one form only.
pub fn validate_range(field: &Field<'_>, errors: &mut ErrorList) -> Option<Range> {
    let before = errors.reported();
    let range = validate_legacy_range(field, &HashSet::new(), errors)?;
    let expected = format!("{}/{}", canonical(range.address), range.bits);
    if errors.reported() == before && field.text() != expected {
        errors.push(field.invalid(format!("must be in canonical form (\"{expected}\")")));
    }
    Some(range)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn errors(text: &str, rule: impl Fn(&Field<'_>, &mut ErrorList)) -> String {
        let value = Value::from(text);
        let mut errors = ErrorList::new();
        rule(&Field::named("f", Some(&value)), &mut errors);
        let texts: Vec<String> = errors.into_iter().map(|fault| fault.detail).collect();
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

    /// The messages of kube-apiserver 1.36.
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
