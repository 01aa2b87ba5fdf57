//! Schedules of CronJobs: five fields, or words such as `@daily` and `@every 1h30m`.
//!
//! The texts of faults are those of the parser that kube-apiserver uses.

use api::field_error::go_quote;

use super::time_zones;

/// The values that a field of a schedule may have.
struct Bounds {
    min: u64,
    max: u64,
    /// Names of values, from the least value on.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds {
        min: 0,
        max: 59,
        names: &[],
    },
    Bounds {
        min: 0,
        max: 23,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 31,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 12,
        names: &MONTHS,
    },
    Bounds {
        min: 0,
        max: 6,
        names: &DAYS,
    },
];

/// Words that stand for a whole schedule.
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Reads a schedule.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (_, behind) = schedule.split_once('=').unwrap_or_default();
        let Some((zone, behind)) = behind.split_once(' ') else {
            return Err(
                "invalid schedule format: runtime error: slice bounds out of range [:-1]"
                    .to_owned(),
            );
        };
        time_zones::load(zone).map_err(|error| format!("provided bad location {zone}: {error}"))?;
        rest = behind.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, shown) = (fields.len(), fields.join(" "));
        return Err(format!(
            "expected exactly 5 fields, found {count}: [{shown}]"
        ));
    }
    fields
        .into_iter()
        .zip(&FIELDS)
        .try_for_each(|(field, bounds)| {
            let mut ranges = field.split(',').filter(|range| !range.is_empty());
            ranges.try_for_each(|range| parse_range(range, bounds))
        })
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => parse_duration(duration)
            .map_err(|error| format!("failed to parse duration {text}: {error}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// A value, a range of values, or every so manieth of a range: `*`, `1`, `1-5`, `*/2`, `1-5/2`.
fn parse_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = text.split('/');
    let mut ends = parts.next().unwrap_or_default().split('-');
    let first = ends.next().unwrap_or_default();
    let second = ends.next();
    let (start, mut end) = match (first, second, ends.next()) {
        ("*" | "?", _, _) => (bounds.min, bounds.max),
        (first, second, third) => {
            let start = parse_value(first, bounds)?;
            match (second, third) {
                (None, _) => (start, start),
                (Some(second), None) => (start, parse_value(second, bounds)?),
                _ => return Err(format!("too many hyphens: {text}")),
            }
        }
    };
    let step = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = parse_number(step)?;
            if second.is_none() {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        Err(format!(
            "beginning of range ({start}) below minimum ({min}): {text}"
        ))
    } else if end > *max {
        Err(format!(
            "end of range ({end}) above maximum ({max}): {text}"
        ))
    } else if start > end {
        Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        Ok(())
    }
}

fn parse_value(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let is_named = |name: &&str| name.eq_ignore_ascii_case(text);
    match bounds.names.iter().position(is_named) {
        Some(place) => Ok(bounds.min.saturating_add(place as u64)),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    let number = parse_go_int(text).map_err(|error| {
        let quoted = go_quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {error}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// Reads a whole number as Go does.
pub(super) fn parse_go_int(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

/// The nanoseconds of a unit.
fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Durations have less nanoseconds than this.
const MAX_NANOS: u64 = 1 << 63;

/// Reads a duration as Go does: `1h30m`.
fn parse_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = leading_digits(rest);
        rest = rest.get(whole.len()..).unwrap_or_default();
        let mut fraction = "";
        if let Some(behind) = rest.strip_prefix('.') {
            fraction = leading_digits(behind);
            rest = behind.get(fraction.len()..).unwrap_or_default();
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let is_number = |c: char| c == '.' || c.is_ascii_digit();
        let unit = rest.split(is_number).next().unwrap_or_default();
        rest = rest.get(unit.len()..).unwrap_or_default();
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some(nanos) = unit_nanos(unit) else {
            let (unit, duration) = (quoted(unit), quoted(text));
            return Err(format!("time: unknown unit {unit} in duration {duration}"));
        };
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        let whole = whole.checked_mul(nanos).filter(|nanos| *nanos <= MAX_NANOS);
        let sum = whole.and_then(|whole| total.checked_add(whole));
        total = sum.filter(|sum| *sum <= MAX_NANOS).ok_or_else(invalid)?;
        // A part of a unit can make no duration too long that is not too long anyway.
    }
    let is_negative = text.starts_with('-');
    if total == MAX_NANOS && !is_negative {
        return Err(invalid());
    }
    Ok(())
}

fn leading_digits(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default()
}

/// A text in quotes, as errors about times have it: bytes that are not ASCII are escaped.
fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                shown.push('\\');
                shown.push(char::from(byte));
            }
            b' '..=b'~' | b'\x7f' => shown.push(char::from(byte)),
            _ => shown.push_str(&format!("\\x{byte:02x}")),
        }
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_by_kubernetes() {
        for good in [
            "* * * * *",
            "0-59/5 ?/2 1,15,31 JAN-dec sun,6",
            " 5/15  *-9 , * * ",
            "+5 * * * *",
            "@daily",
            "@every 1h30m0.5s",
            "@every -0",
            "@every 0",
            "TZ=UTC @hourly",
            "CRON_TZ=Europe/Berlin 0 0 * * *",
        ] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("a", "expected exactly 5 fields, found 1: [a]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
            (
                "@every 1x",
                "failed to parse duration @every 1x: time: unknown unit \"x\" in duration \"1x\"",
            ),
            (
                "TZ=Nowhere * * * * *",
                "provided bad location Nowhere: unknown time zone Nowhere",
            ),
        ] {
            assert_eq!(parse(bad), Err(error.to_owned()));
        }
    }
}
