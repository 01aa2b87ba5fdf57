//! Durations as Go reads and prints them: `1h30m0s`.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::quoting::beginning;

/// The units in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: u64 = 1_000_000_000;

/// The most nanoseconds of a duration, which only a negative one may have.
const MAX_NANOS: u128 = 1 << 63;

/// The decimals of a number that count. Further ones are less than a nanosecond of an hour.
const MAX_DECIMALS: usize = 15;

/// Parses a duration into nanoseconds, as Go's `time.ParseDuration`: `1m30s`, `250ms`, `0`.
///
/// # Errors
/// Go's error if the text is not a duration.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || beginning(format_args!("time: invalid duration {}", Quoted(text)));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, following) = leading_digits(rest);
        let (fraction, following) = match following.strip_prefix('.') {
            Some(following) => leading_digits(following),
            None => ("", following),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let whole = number(whole).filter(|whole| *whole <= MAX_NANOS);
        let whole = whole.ok_or_else(invalid)?;
        let is_number = |c: char| c == '.' || c.is_ascii_digit();
        let (unit, following) =
            following.split_at(following.find(is_number).unwrap_or(following.len()));
        if unit.is_empty() {
            let text = Quoted(text);
            return Err(beginning(format_args!(
                "time: missing unit in duration {text}"
            )));
        }
        let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let (unit, text) = (Quoted(unit), Quoted(text));
            return Err(beginning(format_args!(
                "time: unknown unit {unit} in duration {text}"
            )));
        };
        let unit = u128::from(*unit);
        let decimals = fraction.len().min(MAX_DECIMALS);
        let fraction = fraction.get(..decimals).and_then(number);
        let scale = (0..decimals).fold(1, |scale, _| scale * 10);
        nanos += whole * unit + fraction.unwrap_or_default() * unit / scale;
        if nanos > MAX_NANOS {
            return Err(invalid());
        }
        rest = following;
    }
    let is_negative = text.starts_with('-');
    // At most 2^63 after the checks above, so the cast fits.
    let nanos = nanos as i128;
    i64::try_from(if is_negative { -nanos } else { nanos }).map_err(|_| invalid())
}

/// Returns a duration as Go prints it.
///
/// # Errors
/// Go's error if the text is not a duration.
pub fn canonical(text: &str) -> Result<String, String> {
    parse(text).map(printed)
}

/// Splits a text after its leading digits.
fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Parses digits. No digits are zero.
fn number(digits: &str) -> Option<u128> {
    match digits {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// Text in quotes as in Go's errors of durations, which escape bytes outside of ASCII.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte)),
                b' '..=b'~' | b'\x7f' => f.write_char(char::from(byte)),
                _ => write!(f, "\\x{byte:02x}"),
            }?;
        }
        f.write_char('"')
    }
}

/// Returns a duration in nanoseconds, at most the longest that Go has.
pub fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Formats a duration in nanoseconds as Go does.
pub fn printed(nanos: i64) -> String {
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let nanos = nanos.unsigned_abs();
    if nanos < SECOND {
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
    let minutes = nanos / SECOND / 60;
    if minutes >= 60 {
        let _ = write!(text, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(text, "{}m", minutes % 60);
    }
    text.push_str(&decimal(nanos % (60 * SECOND), SECOND));
    text.push('s');
    text
}

/// Formats a number of units with as many decimals as needed.
fn decimal(number: u64, unit: u64) -> String {
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
    fn durations_are_printed_as_in_go() {
        for (text, shown) in [
            ("0", "0s"),
            ("1h", "1h0m0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("+5s", "5s"),
            ("-60s", "-1m0s"),
            ("1500us", "1.5ms"),
            ("3us", "3µs"),
            ("250ms", "250ms"),
            ("7ns", "7ns"),
            (".5s1.m", "1m0.5s"),
            ("1h1.000001s", "1h0m1.000001s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(shown), "{text}");
        }
    }

    /// API-15, with the errors of kube-apiserver.
    #[test]
    fn other_texts_are_refused_as_in_go() {
        for text in [
            "",
            "-",
            "x",
            "h",
            ".s",
            "1h.s",
            "9999999999999h",
            "2562047h47m16.854775808s",
            "99999999999999999999",
        ] {
            assert_eq!(
                parse(text),
                Err(format!("time: invalid duration \"{text}\""))
            );
        }
        for text in ["1", "5.", "1.2.3s", "1h2"] {
            let refused = Err(format!("time: missing unit in duration \"{text}\""));
            assert_eq!(parse(text), refused);
        }
        for (unit, text) in [("d", "1d"), ("e", "1e3s"), (" s", "1 s")] {
            let refused = format!("time: unknown unit \"{unit}\" in duration \"{text}\"");
            assert_eq!(parse(text), Err(refused));
        }
        assert_eq!(
            parse("é\"\u{1}").unwrap_err(),
            r#"time: invalid duration "\xc3\xa9\"\x01""#
        );
        assert!(parse(&"9".repeat(100_000)).unwrap_err().len() < 20_000);
    }
}
