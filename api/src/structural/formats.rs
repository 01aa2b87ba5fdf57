//! The string formats that schemas may name (CRD-39). Other formats are not checked.

use std::sync::LazyLock;

use regex::Regex;

use super::internet;
use super::kind::SchemaKind;
use crate::names;
use crate::text::go_duration;

/// The formats of texts, by their names without hyphens, which do not matter.
const OF_TEXTS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns the format of texts of this name, if kube-apiserver checks it.
fn text_format(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "");
    let found = OF_TEXTS.binary_search(&name.as_str()).ok()?;
    OF_TEXTS.get(found).copied()
}

/// Returns whether kube-apiserver checks a format of this name for texts.
pub fn is_text_format(name: &str) -> bool {
    text_format(name).is_some()
}

/// A format that is checked for its type.
#[derive(Clone, Debug)]
pub(super) struct Format {
    /// The name as messages show it.
    pub name: Box<str>,
    /// The name without hyphens, if it is the format of texts.
    of_text: Option<&'static str>,
}

impl Format {
    /// Returns the format of this name, if kube-apiserver checks it for values of the type.
    pub fn of(name: &str, kind: SchemaKind) -> Option<Format> {
        let of_text = match kind {
            SchemaKind::Any
            | SchemaKind::String
            | SchemaKind::IntOrString
            | SchemaKind::Unknown => Some(text_format(name)?),
            SchemaKind::Integer if matches!(name, "int32" | "int64") => None,
            SchemaKind::Number if matches!(name, "float" | "double") => None,
            _ => return None,
        };
        Some(Format {
            name: name.into(),
            of_text,
        })
    }

    /// Returns whether a text has the format.
    pub fn fits(&self, text: &str) -> bool {
        self.of_text.is_none_or(|format| has_format(text, format))
    }

    /// Returns whether a check may compare each letter with many classes.
    pub fn is_costly(&self) -> bool {
        self.of_text == Some("hostname")
    }
}

/// The patterns of formats.
static PATTERNS: LazyLock<Vec<(&'static str, Option<Regex>)>> = LazyLock::new(|| {
    [
        ("bsonobjectid", "^(?i)[0-9a-f]{24}$"),
        ("uuid", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("hostname", r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        ("rgbcolor", r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*\)$"),
        ("ssn", "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        ("byte", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
        ("creditcard", "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"),
        ("isbn10", "^(?:[0-9]{9}X|[0-9]{10})$"),
        ("isbn13", "^[0-9]{13}$"),
        // The time of a date-time, in lower case.
        ("time", "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"),
        // A part of a duration as in Scala.
        ("part", "([0-9]+)[\\t\\n\\f\\r ]*([A-Za-zµ]+)"),
    ]
    .into_iter()
    .map(|(name, pattern)| (name, Regex::new(pattern).ok()))
    .collect()
});

fn pattern(name: &str) -> Option<&'static Regex> {
    let found = PATTERNS.iter().find(|(known, _)| *known == name);
    found.and_then(|(_, pattern)| pattern.as_ref())
}

/// Returns whether a text matches a pattern.
fn matches(name: &str, text: &str) -> bool {
    pattern(name).is_none_or(|pattern| pattern.is_match(text))
}

/// Returns whether a text has a format.
fn has_format(text: &str, format: &str) -> bool {
    match format {
        "ipv4" => internet::is_ipv4(text),
        "ipv6" => internet::is_ipv6(text),
        "cidr" => internet::is_cidr(text),
        "mac" => internet::is_mac(text),
        "uri" => internet::is_uri(text),
        "email" => internet::is_email(text),
        "hostname" => {
            let is_short = |label: &str| label.len() <= 63;
            text.len() <= 255 && text.split('.').all(is_short) && matches(format, text)
        }
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_card(text),
        "ssn" => text.len() == 11 && matches(format, text),
        "password" => true,
        "k8sshortname" => names::dns_label(text).is_empty(),
        "k8slongname" => names::dns_subdomain(text).is_empty(),
        name => matches(name, text),
    }
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
    let is_hyphen = |place: usize| bytes.get(place) == Some(&b'-');
    let has_form = (0..10).all(|place| match place {
        4 | 7 => is_hyphen(place),
        place => is_digit(place),
    });
    text.len() == 10 && has_form && text.parse::<jiff::civil::Date>().is_ok()
}

/// Returns whether a text is a date and a time. As in kube-apiserver, a second `t` ends the time.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let found = pattern("time").and_then(|pattern| pattern.captures(time));
    found.is_some_and(|found| {
        let at_most = |part: usize, most: &str| found.get(part).is_some_and(|m| m.as_str() <= most);
        is_date(date) && at_most(1, "23") && at_most(2, "59") && at_most(3, "59")
    })
}

/// Returns whether a text is a duration as in Go, or has a number with the name of a unit.
fn is_duration(text: &str) -> bool {
    /// Names of units, of which the last may be the beginning of a longer one.
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if go_duration::parse(text).is_ok() {
        return true;
    }
    let mut has_unit = false;
    for part in pattern("part")
        .into_iter()
        .flat_map(|part| part.captures_iter(text))
    {
        let group = |at: usize| part.get(at).map_or("", |group| group.as_str());
        if group(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = group(2).to_lowercase();
        has_unit |= UNITS.iter().any(|names| {
            let begins = |last: &&str| unit.starts_with(*last);
            names.contains(&unit.as_str()) || names.last().is_some_and(begins)
        });
    }
    has_unit
}

/// Returns the digits of a text, each with its place from 1.
fn digits(text: &str) -> impl Iterator<Item = (u32, u32)> {
    text.chars().map(|c| c.to_digit(10).unwrap_or(10)).zip(1..)
}

/// Returns a text without white space and hyphens.
fn without_gaps(text: &str) -> String {
    let is_gap = |c: &char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ' | '-');
    text.chars().filter(|c| !is_gap(c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_gaps(text);
    let sum: u32 = digits(&text).map(|(digit, place)| digit * place).sum();
    matches("isbn10", &text) && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_gaps(text);
    let weight = |place: u32| if place.is_multiple_of(2) { 3 } else { 1 };
    let sum: u32 = digits(&text)
        .map(|(digit, place)| digit * weight(place))
        .sum();
    matches("isbn13", &text) && sum.is_multiple_of(10)
}

/// Returns whether the digits of a text are those of a card, with a valid Luhn checksum.
fn is_card(text: &str) -> bool {
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    let weighted = text.bytes().rev().zip([false, true].into_iter().cycle());
    let weighted = weighted.map(|(digit, is_doubled)| {
        let digit = u32::from(digit.saturating_sub(b'0'));
        let doubled = if is_doubled { digit * 2 } else { digit };
        doubled / 10 + doubled % 10
    });
    matches("creditcard", &text) && weighted.sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(format: &str, text: &str) -> bool {
        Format::of(format, SchemaKind::String).unwrap().fits(text)
    }

    /// CRD-39, by the functions that kube-apiserver 1.36 registers.
    #[test]
    fn texts_have_formats_as_in_kube_apiserver() {
        for (format, valid, invalid) in [
            (
                "ipv4",
                "1.2.3.4 01.2.3.4 ::ffff:1.2.3.4",
                "1.2.3 1.2.3.256 ::1 1.2.3.4.5",
            ),
            ("ipv6", "::1 ::ffff:1.2.3.4", "1.2.3.4 ::g fe80::1%eth0"),
            (
                "cidr",
                "10.0.0.0/8 ::/0 010.0.0.0/08",
                "10.0.0.0 10.0.0.0/33 ::/129 10.0.0.0/+8",
            ),
            (
                "mac",
                "00:11:22:33:44:55 00-11-22-33-44-55 0011.2233.4455",
                "00:11-22:33:44:55 x",
            ),
            (
                "uri",
                "/a https://a.b/c?d mailto:a http://[::1]:80/",
                "a http://a:b/ http://%/ :a",
            ),
            ("email", "a@b a.b@c.d Bob<a@b>", "a a@ @b a..b@c a@b."),
            ("hostname", "a a.example a-b.co", "-a a.b a_b"),
            ("date", "2020-02-29", "2019-02-29 2020-1-1 20200101"),
            (
                "date-time",
                "2020-01-01T00:00:00Z 2020-01-01t00:00:00.5+01:00",
                "2020-01-01T00:00:00",
            ),
            (
                "datetime",
                "2020-01-01T23:59:59z",
                "2020-01-01T24:00:00Z 2020-01-01T00:00:00+0100",
            ),
            ("duration", "1h 0 1.5s 3weeks 2days,5min", "x 5 3lightyears"),
            ("byte", "YQ== YWI= YWJj", "a YQ= *"),
            (
                "ssn",
                "123-45-6789 123\u{20}45-6789",
                "123456789 12-345-6789",
            ),
            (
                "creditcard",
                "4111111111111111 4111-1111-1111-1111",
                "4111111111111112 1",
            ),
            ("isbn", "0321751043 978-0321751041", "0321751044 x"),
            (
                "uuid4",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            ("k8s-short-name", "a-b", "a_b A a."),
            ("rgbcolor", "rgb(0,10,255)", "rgb(0,10,256)"),
        ] {
            let texts = |list: &'static str| {
                let list = list.split(if format == "ssn" { '\n' } else { ' ' });
                list.filter(|text| format != "ssn" || !text.contains("6789 "))
            };
            for text in texts(valid) {
                assert!(fits(format, text), "{format} {text}");
            }
            for text in invalid.split(' ') {
                assert!(!fits(format, text), "{format} {text}");
            }
        }
        assert!(!fits("byte", "") && fits("password", ""));
    }

    /// CRD-39: which formats count depends on the type.
    #[test]
    fn formats_of_other_types_are_ignored() {
        assert!(Format::of("int32", SchemaKind::Integer).is_some());
        for (format, kind) in [
            ("int32", SchemaKind::String),
            ("int32", SchemaKind::Number),
            ("date", SchemaKind::Integer),
            ("odd", SchemaKind::String),
            ("date", SchemaKind::Object),
        ] {
            assert!(Format::of(format, kind).is_none(), "{format}");
        }
    }
}
