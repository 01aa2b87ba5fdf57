//! The types of the values of kube-apiserver's flags.

use std::net::IpAddr;

use super::super::storage::{Switch, entries};
use crate::api::quantity::Quantity;
use crate::api::text::go_duration;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `true` or `false`; without a value it is true.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A duration in Go's notation.
    Duration,
    /// An amount such as `512`, `1K` or `2Ki`.
    Quantity,
    /// An address, or nothing.
    Ip,
    /// Any text.
    Text,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Texts separated by commas.
    List,
    /// Names with values, separated by commas.
    Map,
    /// Patterns of files with numbers, separated by commas.
    Levels,
    /// Minor versions of components, between these two of `kube`, separated by commas.
    Versions(u32, u32),
}

impl Kind {
    /// Whether the flag may be given several times.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Kind::List | Kind::Map | Kind::Versions(..))
    }

    /// Returns the one text form of a value.
    ///
    /// # Errors
    /// The value has another type, or is out of range.
    pub(super) fn canonical(self, text: &str) -> Result<String, String> {
        match self {
            Kind::Bool => text.parse().map(|value: Switch| value.to_string()),
            Kind::Int => whole(text).map(|value| value.to_string()),
            Kind::Float => number(text).map(|value| value.to_string()),
            Kind::Duration => go_duration::canonical(text).map_err(|_| NO_DURATION.to_owned()),
            Kind::Quantity => match text.parse::<Quantity>() {
                Ok(quantity) => Ok(quantity.to_string()),
                Err(_) => Err("not a quantity such as 512, 1K or 2Ki".to_owned()),
            },
            Kind::Ip if text.is_empty() => Ok(String::new()),
            Kind::Ip => match text.parse::<IpAddr>() {
                Ok(address) => Ok(address.to_string()),
                Err(_) => Err("not an IP address".to_owned()),
            },
            Kind::Text => Ok(text.to_owned()),
            Kind::Words(words) if words.contains(&text) => Ok(text.to_owned()),
            Kind::Words(words) => Err(format!("not one of {}", words.join(", "))),
            Kind::List => Ok(list(text)),
            Kind::Map => match entries(text).find(|entry| !entry.contains('=')) {
                Some(entry) => Err(format!("{entry} must be formatted as key=value")),
                None => Ok(list(text)),
            },
            Kind::Levels => match entries(text).find(|entry| !is_level(entry)) {
                Some(entry) => Err(format!("{entry} must be formatted as pattern=N")),
                None => Ok(list(text)),
            },
            Kind::Versions(least, most) => {
                for entry in entries(text) {
                    check_version(entry, least, most)?;
                }
                Ok(list(text))
            }
        }
    }
}

const NOT_A_NUMBER: &str = "not a whole number, such as 100";
const NO_DURATION: &str = "not a duration such as 250ms, 90s, 10m or 1h30m";

fn list(text: &str) -> String {
    entries(text).collect::<Vec<_>>().join(",")
}

/// Parses a whole number as Go does, which knows other bases by their prefixes.
pub(super) fn whole(text: &str) -> Result<i64, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, base) = match unsigned.get(..2) {
        Some("0x" | "0X") => (unsigned.get(2..), 16),
        Some("0b" | "0B") => (unsigned.get(2..), 2),
        Some("0o" | "0O") => (unsigned.get(2..), 8),
        _ => (Some(unsigned), 10),
    };
    let is_number = |digits: &&str| digits.starts_with(|first: char| first.is_ascii_alphanumeric());
    let digits = digits.filter(is_number);
    let value = digits.and_then(|digits| i64::from_str_radix(digits, base).ok());
    let value = value.map(|value| match text.starts_with('-') {
        true => -value,
        false => value,
    });
    value.ok_or_else(|| NOT_A_NUMBER.to_owned())
}

fn number(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| "not a number such as 0.5".to_owned())
}

fn is_level(entry: &str) -> bool {
    let parts = entry.split_once('=');
    parts.is_some_and(|(pattern, level)| !pattern.is_empty() && whole(level).is_ok())
}

/// Checks `1.36` or `kube=1.36`.
fn check_version(entry: &str, least: u32, most: u32) -> Result<(), String> {
    let (component, version) = entry.split_once('=').unwrap_or(("kube", entry));
    if component != "kube" {
        return Err(format!("component not registered: {component}"));
    }
    let minor = version
        .strip_prefix("1.")
        .and_then(|minor| minor.parse().ok());
    match minor {
        Some(minor) if (least..=most).contains(&minor) => Ok(()),
        Some(_) => Err(format!("{version} is not between 1.{least} and 1.{most}")),
        None => Err(format!("{version} is not a version such as 1.{most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_form_by_their_type() {
        for (kind, given, wanted) in [
            (Kind::Bool, "T", "true"),
            (Kind::Int, "-7", "-7"),
            (Kind::Int, "0x10", "16"),
            (Kind::Float, "10", "10"),
            (Kind::Float, "1e-2", "0.01"),
            (Kind::Duration, "90s", "1m30s"),
            (Kind::Duration, "0", "0s"),
            (Kind::Quantity, "1024", "1024"),
            (Kind::Ip, "::1", "::1"),
            (Kind::Ip, "", ""),
            (Kind::Text, " a", " a"),
            (Kind::Words(&["a", "b"]), "b", "b"),
            (Kind::List, "a, b,", "a,b"),
            (Kind::Map, "a=1,b=", "a=1,b="),
            (Kind::Levels, "a*=2", "a*=2"),
            (Kind::Versions(35, 36), "1.36,kube=1.35", "1.36,kube=1.35"),
        ] {
            assert_eq!(kind.canonical(given).as_deref(), Ok(wanted), "{given}");
        }
    }

    #[test]
    fn values_of_another_type_are_refused() {
        for (kind, given) in [
            (Kind::Bool, "yes"),
            (Kind::Bool, ""),
            (Kind::Int, "1.5"),
            (Kind::Int, ""),
            (Kind::Int, "--1"),
            (Kind::Int, "0x"),
            (Kind::Int, "9223372036854775808"),
            (Kind::Float, "NaN"),
            (Kind::Float, "many"),
            (Kind::Duration, "5"),
            (Kind::Duration, "soon"),
            (Kind::Quantity, "much"),
            (Kind::Ip, "10.0.0"),
            (Kind::Words(&["a", "b"]), "c"),
            (Kind::Map, "a=1,b"),
            (Kind::Levels, "a=b"),
            (Kind::Versions(35, 36), "1.34"),
            (Kind::Versions(35, 36), "v1"),
            (Kind::Versions(35, 36), "other=1.36"),
        ] {
            assert!(kind.canonical(given).is_err(), "{given}");
        }
    }
}
