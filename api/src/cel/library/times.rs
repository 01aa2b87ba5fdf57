//! Methods of times and durations.

use std::num::IntErrorKind;

use jiff::tz::TimeZoneDatabase;

use super::super::values::times::{SECOND, Time};
use super::super::values::value::{Failure, Outcome, Value, error, no_overload};
use crate::text::quoting::go_quote;

/// Returns a part of a time in a zone: the method `getFullYear` and the like.
pub(in super::super) fn part(name: &str, time: Time, zone: Option<&str>) -> Outcome<i64> {
    let zone = zone.map_or(Ok(0), |zone| read_zone(zone, time))?;
    let civil = time.civil(zone);
    Ok(match name {
        "getFullYear" => civil.year,
        "getMonth" => civil.month - 1,
        "getDayOfYear" => civil.day_of_year,
        "getDayOfMonth" => civil.day - 1,
        "getDate" => civil.day,
        "getDayOfWeek" => civil.weekday,
        "getHours" => civil.second / 3600,
        "getMinutes" => civil.second / 60 % 60,
        "getSeconds" => civil.second % 60,
        "getMilliseconds" => time.milliseconds(),
        _ => return no_overload(),
    })
}

/// Returns a part of a duration.
pub(in super::super) fn duration_part(name: &str, nanos: i64) -> Outcome<i64> {
    Ok(match name {
        "getHours" => nanos / (3600 * SECOND),
        "getMinutes" => nanos / (60 * SECOND),
        "getSeconds" => nanos / SECOND,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return no_overload(),
    })
}

/// Returns the seconds east of UTC at a time in a zone: one with a name, or hours and minutes as
/// `-05:30`.
fn read_zone(text: &str, time: Time) -> Outcome<i64> {
    let Some((hours, minutes)) = text.split_once(':') else {
        return named_zone(text, time);
    };
    let number = |text: &str| {
        text.parse::<i64>().map_err(|why| {
            let why = match why.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let text = go_quote(text);
            Failure::Error(format!("strconv.Atoi: parsing {text}: {why}").into())
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let hours = hours.wrapping_mul(60);
    let total = match text.starts_with('-') {
        true => hours.wrapping_sub(minutes),
        false => hours.wrapping_add(minutes),
    };
    // Go counts the nanoseconds, which may overflow.
    Ok(total.wrapping_mul(60 * SECOND) / SECOND)
}

/// Returns the seconds east of UTC at a time in a zone of the time zone database. As in Go, the
/// case of its name counts.
fn named_zone(name: &str, time: Time) -> Outcome<i64> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    let is_path = name.split('/').any(|part| part == "..");
    if is_path || name.starts_with(['/', '\\']) {
        return error("time: invalid location name");
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok();
    let zone = zone.filter(|zone| zone.iana_name() == Some(name));
    let Some(zone) = zone else {
        return error(format!("unknown time zone {name}"));
    };
    // The end of the year 9999 is out of jiff's range. The calendar repeats every 400 years.
    let seconds = time.seconds();
    let known = jiff::Timestamp::new(seconds, 0);
    let known = known.or_else(|_| jiff::Timestamp::new(seconds - 146_097 * 86_400, 0));
    Ok(zone.to_offset(known.unwrap_or_default()).seconds().into())
}

/// Returns the result of a method of times and durations.
pub(in super::super) fn method<'v>(name: &str, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Timestamp(time)] => part(name, *time, None).map(Value::Int),
        [Value::Timestamp(time), Value::String(zone)] => {
            part(name, *time, Some(zone)).map(Value::Int)
        }
        [Value::Duration(nanos)] => duration_part(name, *nanos).map(Value::Int),
        _ => no_overload(),
    }
}
