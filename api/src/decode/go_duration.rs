//! Durations as Go writes them: `1h30m0s`.

use std::fmt::Write as _;

use crate::field_error::go_quote;

/// The units, in billionths of a second.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: i128 = 1_000_000_000;

/// A duration in the form in which Go prints it.
///
/// # Errors
/// The text is none, in the words of Go.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let nanos = parse(text).ok_or_else(|| format!("time: invalid duration {}", go_quote(text)))?;
    Ok(printed(nanos))
}

/// The nanoseconds of a duration.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        // More decimals than these make no difference.
        let fraction = fraction.get(..fraction.len().min(15))?;
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let part: i128 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().ok()?
        };
        nanos = nanos.checked_add(whole.checked_mul(*unit)?)?;
        nanos = nanos.checked_add(part * unit / scale)?;
        rest = behind;
    }
    let nanos = if is_negative { -nanos } else { nanos };
    i64::try_from(nanos).ok().map(i128::from)
}

/// A duration in nanoseconds as Go prints it.
pub(crate) fn printed(nanos: i128) -> String {
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let nanos = nanos.unsigned_abs();
    let second = SECOND.unsigned_abs();
    if nanos < second {
        let (unit, name) = match nanos {
            0 => return "0s".to_owned(),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        text.push_str(&decimal(nanos, unit));
        text.push_str(name);
        return text;
    }
    let minutes = nanos / second / 60;
    if minutes >= 60 {
        let _ = write!(text, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(text, "{}m", minutes % 60);
    }
    text.push_str(&decimal(nanos % (60 * second), second));
    text.push('s');
    text
}

/// A number of units, with as many decimals as it needs.
fn decimal(number: u128, unit: u128) -> String {
    let digits = unit.ilog10() as usize;
    let fraction = number % unit;
    let mut text = (number / unit).to_string();
    if fraction > 0 {
        let decimals = format!("{fraction:0digits$}");
        text.push('.');
        text.push_str(decimals.trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (text, shown) in [
            ("0", "0s"),
            ("1h", "1h0m0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("-60s", "-1m0s"),
            ("1500us", "1.5ms"),
            ("3us", "3µs"),
            ("7ns", "7ns"),
            ("1h1.000001s", "1h0m1.000001s"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(shown), "{text}");
        }
        for text in ["", "1", "h", "1d", "-", "1.2.3s", ".s", "9999999999999h"] {
            assert_eq!(
                canonical(text),
                Err(format!("time: invalid duration \"{text}\""))
            );
        }
    }
}
