//! Points in time and durations.

use std::cmp::Ordering;
use std::fmt::Write as _;

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::{Failure, Outcome, error};
use crate::text::go_duration;
use crate::text::go_time::{Decimals, GoTime, civil, days_of};

/// The seconds of the years 1 to 9999.
pub(in super::super) const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The nanoseconds of a second.
pub(in super::super) const SECOND: i64 = 1_000_000_000;

/// The seconds of a day.
const DAY: i64 = 86_400;

/// A date and a time of day in some zone.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    /// The days since the first one of the year.
    pub day_of_year: i64,
    /// The days since Sunday.
    pub weekday: i64,
    /// The seconds since midnight.
    pub second: i64,
}

/// A point in time, and the zone in which it was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Time {
    /// Seconds since 1970.
    seconds: i64,
    /// Nanoseconds after these seconds.
    nanos: u32,
    /// The zone in seconds east of UTC.
    zone: i32,
}

impl PartialEq for Time {
    fn eq(&self, other: &Time) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl Time {
    /// Returns a time by its seconds since 1970.
    pub(in super::super) fn of_seconds(seconds: i64) -> Outcome<Time> {
        Time::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: u32, zone: i32) -> Outcome<Time> {
        match RANGE.contains(&seconds) {
            true => Ok(Time {
                seconds,
                nanos,
                zone,
            }),
            false => error("timestamp overflow"),
        }
    }

    pub(in super::super) fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the milliseconds after the seconds.
    pub(in super::super) fn milliseconds(self) -> i64 {
        i64::from(self.nanos / 1_000_000)
    }

    /// Returns whether it is the first instant of the year 1.
    pub(in super::super) fn is_zero(self) -> bool {
        self.seconds == *RANGE.start() && self.nanos == 0
    }

    /// Returns the time after a duration.
    pub(in super::super) fn after(self, duration: i64) -> Outcome<Time> {
        let nanos = i64::from(self.nanos) + duration.rem_euclid(SECOND);
        let seconds = self.seconds + duration.div_euclid(SECOND) + nanos / SECOND;
        let nanos = u32::try_from(nanos % SECOND).unwrap_or_default();
        Time::new(seconds, nanos, self.zone)
    }

    /// Returns the duration since another time.
    pub(in super::super) fn since(self, other: Time) -> Outcome<i64> {
        let seconds = self.seconds - other.seconds;
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        let total = seconds
            .checked_mul(SECOND)
            .and_then(|of| of.checked_add(nanos));
        total.ok_or(Failure::Error("integer overflow".into()))
    }

    /// Returns date and time in a zone, by its seconds east of UTC.
    pub(in super::super) fn civil(self, zone: i64) -> Civil {
        let seconds = self.seconds.saturating_add(zone);
        let days = seconds.div_euclid(DAY);
        let (year, month, day) = civil(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_of(year, 1, 1),
            // The first day of 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            second: seconds.rem_euclid(DAY),
        }
    }

    /// Formats the time as Go does, in the zone in which it was written.
    pub fn printed(self) -> String {
        let civil = self.civil(self.zone.into());
        let mut out = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year,
            civil.month,
            civil.day,
            civil.second / 3600,
            civil.second / 60 % 60,
            civil.second % 60
        );
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
        if self.zone == 0 {
            out.push('Z');
        } else {
            let minutes = self.zone.abs() / 60;
            let sign = if self.zone < 0 { '-' } else { '+' };
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        out
    }
}

/// Returns the zone at the end of a valid time, in seconds east of UTC.
fn zone_of(text: &str) -> i32 {
    let Some(zone) = text.get(text.len().saturating_sub(6)..) else {
        return 0;
    };
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return 0,
    };
    let number = |from: usize| {
        zone.get(from..from + 2)
            .and_then(|of| of.parse::<i32>().ok())
    };
    let (hours, minutes) = (number(1).unwrap_or(0), number(4).unwrap_or(0));
    sign * (hours * 3600 + minutes * 60)
}

/// Returns the nanoseconds in a valid time.
fn nanos_of(text: &str) -> u32 {
    let Some((_, fraction)) = text.split_once(['.', ',']) else {
        return 0;
    };
    let digits: String = fraction
        .chars()
        .take_while(char::is_ascii_digit)
        .take(9)
        .collect();
    format!("{digits:0<9}").parse().unwrap_or(0)
}

/// Parses a time as the function `timestamp` does.
pub(in super::super) fn read_time(text: &str) -> Outcome<Time> {
    match GoTime::read(text, Decimals::Any) {
        Ok(time) => Time::new(time.seconds, nanos_of(text), zone_of(text)),
        Err(_) => error("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
    }
}

/// Parses a date.
///
/// # Errors
/// The text is not a date.
pub(in super::super) fn read_date(text: &str) -> Result<Time, String> {
    let date = text.parse::<Date>().ok().filter(|_| text.len() == 10);
    let date = date.ok_or_else(|| format!("parsing time \"{text}\" as \"2006-01-02\""))?;
    Ok(Time {
        seconds: seconds_of(date.at(0, 0, 0, 0)),
        nanos: 0,
        zone: 0,
    })
}

fn seconds_of(civil: DateTime) -> i64 {
    let time = Offset::UTC.to_timestamp(civil);
    time.map_or(0, jiff::Timestamp::as_second)
}

/// Parses a date and time in any form that the format `date-time` allows: the zone may be absent or
/// written without a colon.
///
/// # Errors
/// The text is not a date and time.
pub(in super::super) fn read_date_time(text: &str) -> Result<Time, String> {
    if text.is_empty() {
        return Ok(Time::default());
    }
    let upper = text.to_ascii_uppercase();
    let (body, zone) = match upper.get(10..).and_then(|rest| rest.find(['Z', '+', '-'])) {
        Some(at) => upper.split_at(at + 10),
        None => (upper.as_str(), "Z"),
    };
    let zone = match (zone.len(), zone.get(..3), zone.get(3..)) {
        (5, Some(hours), Some(minutes)) => format!("{hours}:{minutes}"),
        _ => zone.to_owned(),
    };
    let text = format!("{body}{zone}");
    let time = GoTime::read(&text, Decimals::Any)?;
    Ok(Time {
        seconds: time.seconds,
        nanos: nanos_of(&text),
        zone: zone_of(&text),
    })
}

/// The units of durations in words, with their nanoseconds. The last name of a unit may go on.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], SECOND),
    (&["m", "min"], 60 * SECOND),
    (&["h", "hr", "hour"], 3600 * SECOND),
    (&["d", "day"], 24 * 3600 * SECOND),
    (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
];

/// Parses a duration in any form that the format `duration` allows: that of Go, or integers with
/// units in words.
pub(in super::super) fn read_span(text: &str) -> Option<i64> {
    if let Ok(nanos) = go_duration::parse(text) {
        return Some(nanos);
    }
    let mut rest = text.trim_ascii();
    let (mut total, mut found) = (0_i64, false);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, following) = rest.split_at_checked(digits)?;
        let number: i64 = number.parse().ok()?;
        let following = following.trim_ascii_start();
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        let letters = following.len() - following.trim_start_matches(is_letter).len();
        let (word, after) = following
            .split_at_checked(letters)
            .filter(|_| letters > 0)?;
        let word = word.to_lowercase();
        for (names, nanos) in UNITS {
            let is_named = names.contains(&word.as_str())
                || names.last().is_some_and(|last| word.starts_with(last));
            if is_named {
                total = total.wrapping_add(number.wrapping_mul(nanos));
                found = true;
            }
        }
        rest = after.trim_ascii_start();
    }
    found.then_some(total)
}

/// Formats a duration as the function `string` does, in seconds as a float.
pub(in super::super) fn printed_duration(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "as Go computes it")]
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}
