//! The formats of texts that schemas name (CRD-39). Texts of other formats are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::names;

/// Patterns of formats that are no more than that.
static PATTERNS: LazyLock<Vec<(&'static str, Option<Regex>)>> = LazyLock::new(|| {
    [
        ("bsonobjectid", "^(?i)[0-9a-f]{24}$"),
        ("uuid", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("hostname", r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        ("rgbcolor", r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"),
        ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
        ("mac", r"^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,3})$"),
        ("email", r"^[^\s@<>,;:\\()\[\]]+@[^\s@<>,;:\\()\[\]]+$"),
        ("date-time", r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})?$"),
    ]
    .into_iter()
    .map(|(name, pattern)| (name, Regex::new(pattern).ok()))
    .collect()
});

/// Whether a text has a format.
pub(super) fn has_format(text: &str, format: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "datetime" | "date-time" => {
            let digits = text.get(..10).unwrap_or_default();
            matches_pattern("date-time", text) && digits.parse::<jiff::civil::Date>().is_ok()
        }
        "duration" => is_duration(text),
        "uri" => is_uri(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_card(text),
        "k8s-short-name" => names::dns_label(text).is_empty(),
        "k8s-long-name" => names::dns_subdomain(text).is_empty(),
        name => matches_pattern(name, text),
    }
}

/// Whether a text matches the pattern of a format; true for a format without one.
fn matches_pattern(format: &str, text: &str) -> bool {
    let found = PATTERNS.iter().find(|(name, _)| *name == format);
    let pattern = found.and_then(|(_, pattern)| pattern.as_ref());
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let is_number = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let Some(length) = length.parse::<u8>().ok().filter(|_| is_number) else {
        return false;
    };
    address.parse::<Ipv4Addr>().is_ok() && length <= 32
        || address.parse::<Ipv6Addr>().is_ok() && length <= 128
}

fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    let is_plain = !text.contains(|c: char| c.is_control() || c == ' ');
    is_plain && (has_scheme || text.starts_with('/'))
}

/// A duration as Go writes it, or a number with the name of a unit.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 26] = [
        "ns",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "minute",
        "minutes",
        "h",
        "hr",
        "hour",
        "hours",
    ];
    const LONG: [&str; 6] = ["d", "day", "days", "w", "week", "weeks"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
        let (number, behind) = rest.split_at_checked(digits).unwrap_or((rest, ""));
        if number.parse::<f64>().is_err() {
            return false;
        }
        let behind = behind.trim_start_matches(' ');
        let end = behind
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(behind.len());
        let (unit, after) = behind.split_at_checked(end).unwrap_or((behind, ""));
        if !UNITS.contains(&unit) && !LONG.contains(&unit) {
            return false;
        }
        rest = after.trim_start_matches(' ');
    }
    true
}

/// The digits of a text in which spaces and hyphens may stand.
fn digits(text: &str) -> Option<Vec<u32>> {
    let mut letters = text.chars().filter(|c| !matches!(c, ' ' | '-'));
    letters.try_fold(Vec::new(), |mut digits, letter| {
        digits.push(letter.to_digit(10)?);
        Some(digits)
    })
}

fn is_isbn10(text: &str) -> bool {
    let (text, last) = match text.strip_suffix(['X', 'x']) {
        Some(text) => (text, Some(10)),
        None => (text, None),
    };
    let Some(mut found) = digits(text) else {
        return false;
    };
    found.extend(last);
    let weighted = found
        .iter()
        .zip(1_u32..)
        .map(|(digit, place)| digit * place);
    found.len() == 10 && weighted.sum::<u32>().is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    digits(text).is_some_and(|found| {
        let weights = [1, 3].into_iter().cycle();
        let sum: u32 = found
            .iter()
            .zip(weights)
            .map(|(digit, weight)| digit * weight)
            .sum();
        found.len() == 13 && sum.is_multiple_of(10)
    })
}

/// A number of 13 to 16 digits with Luhn's check.
fn is_card(text: &str) -> bool {
    digits(text).is_some_and(|found| {
        let weighted = found.iter().rev().enumerate().map(|(place, digit)| {
            let doubled = if place % 2 == 1 { digit * 2 } else { *digit };
            doubled / 10 + doubled % 10
        });
        (13..=16).contains(&found.len()) && weighted.sum::<u32>().is_multiple_of(10)
    })
}
