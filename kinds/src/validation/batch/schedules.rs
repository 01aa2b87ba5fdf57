//! Schedules of CronJobs: five fields, or descriptors such as `@daily` and `@every 1h30m`.
//!
//! Error messages are those of the cron parser that kube-apiserver uses.

use api::text::go_duration;
use api::text::quoting::go_quote;

use super::time_zones;

/// The values that a field of a schedule may have.
struct Bounds {
    min: u64,
    max: u64,
    /// Names of values, starting with the smallest value.
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

/// Descriptors, each of which is a whole schedule.
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Parses a schedule.
///
/// # Errors
/// Returns the parser's message.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (_, after) = schedule.split_once('=').unwrap_or_default();
        let Some((zone, after)) = after.split_once(' ') else {
            return Err(
                "invalid schedule format: runtime error: slice bounds out of range [:-1]"
                    .to_owned(),
            );
        };
        time_zones::load(zone).map_err(|error| format!("provided bad location {zone}: {error}"))?;
        rest = after.trim();
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
        Some(duration) => go_duration::parse(duration)
            .map(|_| ())
            .map_err(|error| format!("failed to parse duration {text}: {error}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Parses a value, a range, or a range with a step: `*`, `1`, `1-5`, `*/2`, `1-5/2`.
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

/// Parses an integer like Go's `strconv`.
pub(super) fn parse_go_int(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
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
