//! IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::values::value::{Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use crate::text::quoting::go_quote;

/// Returns the result of a function of addresses and networks.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    _: &Work,
) -> Outcome<Value<'v>> {
    let ip = |of: IpAddr| Value::Opaque(Opaque::Ip(of));
    match (name, arguments) {
        ("ip", [Value::String(text)]) => read_ip(text).map_or_else(error, |of| Ok(ip(of))),
        ("ip", [Value::Opaque(Opaque::Cidr(of, _))]) => Ok(ip(*of)),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(read_ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => match read_ip(text) {
            Ok(of) => Ok(Value::Bool(of.to_string() == **text)),
            Err(why) => error(why),
        },
        ("cidr", [Value::String(text)]) => cidr(text),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(read_cidr(text).is_ok())),
        ("containsIP", [Value::Opaque(Opaque::Cidr(of, bits)), other]) => {
            let found = match other {
                Value::String(text) => read_ip(text).ok(),
                Value::Opaque(Opaque::Ip(other)) => Some(*other),
                _ => None,
            };
            // The error does not say why a text is not an address.
            match found {
                Some(found) => Ok(Value::Bool(contains(*of, *bits, found))),
                None => no_overload(),
            }
        }
        ("containsCIDR", [Value::Opaque(Opaque::Cidr(of, bits)), other]) => {
            let (inner, inner_bits) = match other {
                Value::String(text) => match cidr(text)? {
                    Value::Opaque(Opaque::Cidr(inner, bits)) => (inner, bits),
                    _ => return no_overload(),
                },
                Value::Opaque(Opaque::Cidr(inner, bits)) => (*inner, *bits),
                _ => return no_overload(),
            };
            let is_inside = *bits <= inner_bits && contains(*of, *bits, inner);
            Ok(Value::Bool(is_inside))
        }
        ("masked", [Value::Opaque(Opaque::Cidr(of, bits))]) => {
            Ok(Value::Opaque(Opaque::Cidr(masked(*of, *bits), *bits)))
        }
        ("prefixLength", [Value::Opaque(Opaque::Cidr(_, bits))]) => {
            Ok(Value::Int(i64::from(*bits)))
        }
        ("family", [Value::Opaque(Opaque::Ip(of))]) => {
            Ok(Value::Int(if of.is_ipv4() { 4 } else { 6 }))
        }
        (name, [Value::Opaque(Opaque::Ip(of))]) => has_property(name, *of).map(Value::Bool),
        _ => no_overload(),
    }
}

fn cidr<'v>(text: &str) -> Outcome<Value<'v>> {
    match read_cidr(text) {
        Ok((of, bits)) => Ok(Value::Opaque(Opaque::Cidr(of, bits))),
        Err(why) => error(format!(
            "network address parse error during conversion from string: {why}"
        )),
    }
}

fn has_property(name: &str, of: IpAddr) -> Outcome<bool> {
    let is_link_local_unicast = match of {
        IpAddr::V4(of) => of.is_link_local(),
        IpAddr::V6(of) => of.segments()[0] & 0xffc0 == 0xfe80,
    };
    Ok(match name {
        "isUnspecified" => of.is_unspecified(),
        "isLoopback" => of.is_loopback(),
        "isLinkLocalUnicast" => is_link_local_unicast,
        "isLinkLocalMulticast" => match of {
            IpAddr::V4(of) => of.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(of) => of.segments()[0] & 0xff0f == 0xff02,
        },
        "isGlobalUnicast" => {
            let is_broadcast = of == IpAddr::V4(Ipv4Addr::BROADCAST);
            let is_special = of.is_unspecified() || of.is_loopback() || of.is_multicast();
            !is_special && !is_broadcast && !is_link_local_unicast
        }
        _ => return no_overload(),
    })
}

fn masked(of: IpAddr, bits: u8) -> IpAddr {
    match of {
        IpAddr::V4(of) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(bits.min(32)))
                .unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(of.to_bits() & mask))
        }
        IpAddr::V6(of) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(bits.min(128)))
                .unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(of.to_bits() & mask))
        }
    }
}

fn contains(of: IpAddr, bits: u8, other: IpAddr) -> bool {
    of.is_ipv4() == other.is_ipv4() && masked(of, bits) == masked(other, bits)
}

/// Formats a network.
pub(in super::super) fn printed_cidr(of: IpAddr, bits: u8) -> String {
    format!("{of}/{bits}")
}

/// Parses an address as Go's netip does. Returns it with its zone.
fn parse(text: &str) -> Result<(IpAddr, &str), String> {
    let wrong = |(why, at): (&str, &str)| {
        let text = go_quote(text);
        match at {
            "" => format!("ParseAddr({text}): {why}"),
            at => format!("ParseAddr({text}): {why} (at {})", go_quote(at)),
        }
    };
    let kind = text
        .find(['.', ':', '%'])
        .and_then(|at| text.as_bytes().get(at));
    let (address, zone) = match kind {
        Some(b'.') => (text, ""),
        Some(b':') => text.split_once('%').unwrap_or((text, "")),
        Some(_) => return Err(wrong(("missing IPv6 address", ""))),
        None => return Err(wrong(("unable to parse IP", ""))),
    };
    let fault = match kind {
        Some(b'.') => v4_fault(text),
        _ if text.contains('%') && zone.is_empty() => Some(("zone must be a non-empty string", "")),
        _ => v6_fault(address),
    };
    match (fault, address.parse()) {
        (None, Ok(of)) => Ok((of, zone)),
        (fault, _) => Err(wrong(fault.unwrap_or(("unexpected character", "")))),
    }
}

/// Returns the error in an address of version 4, with the text from its place on, if Go shows it.
fn v4_fault(text: &str) -> Option<(&'static str, &str)> {
    let (mut fields, mut digits, mut number) = (0, 0, 0_u32);
    for (at, byte) in text.bytes().enumerate() {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' if digits == 1 && number == 0 => {
                return Some(("IPv4 field has octet with leading zero", ""));
            }
            b'0'..=b'9' => {
                number = 10 * number + u32::from(byte - b'0');
                digits += 1;
                if number > 255 {
                    return Some(("IPv4 field has value >255", ""));
                }
            }
            b'.' if digits == 0 || rest.len() == 1 => {
                return Some(("IPv4 field must have at least one digit", rest));
            }
            b'.' if fields == 3 => return Some(("IPv4 address too long", "")),
            b'.' => {
                fields += 1;
                (digits, number) = (0, 0);
            }
            _ => return Some(("unexpected character", rest)),
        }
    }
    (fields < 3).then_some(("IPv4 address too short", ""))
}

/// Returns the error in an address of version 6 without its zone, as [`v4_fault`].
fn v6_fault(text: &str) -> Option<(&'static str, &str)> {
    let (mut rest, mut has_gap) = match text.strip_prefix("::") {
        Some("") => return None,
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Some(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            let why = "each colon-separated field must have at least one digit";
            return Some((why, rest));
        }
        let following = rest.get(digits..).unwrap_or_default();
        if following.starts_with('.') {
            return match bytes {
                _ if !has_gap && bytes != 12 => Some((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                )),
                14.. => Some((
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                )),
                _ => v4_fault(rest),
            };
        }
        bytes += 2;
        rest = match following.strip_prefix(':') {
            None if following.is_empty() => "",
            None => return Some(("unexpected character, want colon", following)),
            Some("") => return Some(("colon must be followed by more characters", following)),
            Some(after) => after,
        };
        if let Some(after) = rest.strip_prefix(':') {
            if has_gap {
                return Some(("multiple :: in address", rest));
            }
            has_gap = true;
            rest = after;
        }
        if rest.is_empty() {
            break;
        }
    }
    match (rest, bytes, has_gap) {
        ("", 16.., true) => Some(("the :: must expand to at least one field of zeros", "")),
        ("", 16.., _) | ("", _, true) => None,
        ("", ..) => Some(("address string too short", "")),
        (rest, ..) => Some(("trailing garbage after address", rest)),
    }
}

fn is_mapped(of: IpAddr) -> bool {
    matches!(of, IpAddr::V6(of) if of.to_ipv4_mapped().is_some())
}

fn read_ip(text: &str) -> Result<IpAddr, String> {
    let (of, zone) = parse(text).map_err(|why| {
        let text = go_quote(text);
        format!("IP Address {text} parse error during conversion from string: {why}")
    })?;
    if !zone.is_empty() {
        let text = go_quote(text);
        return Err(format!("IP address {text} with zone value is not allowed"));
    }
    match is_mapped(of) {
        true => Err(mapped(text)),
        false => Ok(of),
    }
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text))
}

fn read_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let (of, bits) = parse_cidr(text).map_err(|why| {
        let text = go_quote(text);
        format!(
            "network address parse error during conversion from string: \
             netip.ParsePrefix({text}): {why}"
        )
    })?;
    match is_mapped(of) {
        true => Err(mapped(text)),
        false => Ok((of, bits)),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let (of, zone) = parse(address)?;
    if !zone.is_empty() {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || bits.len() > 1 && bits.starts_with('0') {
        return Err(format!("bad bits after slash: {}", go_quote(bits)));
    }
    let most = if of.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(bits) if bits <= most => Ok((of, bits)),
        _ => Err("prefix length out of range".to_owned()),
    }
}
