//! Methods of times and durations.

use super::super::values::times::{SECOND, Time};
use super::super::values::value::{Outcome, Value, error, no_overload};

/// Returns a part of a time in a zone: the method `getFullYear` and the like.
pub(in super::super) fn part(name: &str, time: Time, zone: Option<&str>) -> Outcome<i64> {
    let zone = zone.map_or(Ok(0), read_zone)?;
    let civil = time.civil(zone);
    Ok(match name {
        "getFullYear" => i64::from(civil.year()),
        "getMonth" => i64::from(civil.month()) - 1,
        "getDayOfYear" => i64::from(civil.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(civil.day()) - 1,
        "getDate" => i64::from(civil.day()),
        "getDayOfWeek" => i64::from(civil.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(civil.hour()),
        "getMinutes" => i64::from(civil.minute()),
        "getSeconds" => i64::from(civil.second()),
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

/// Parses a zone: `UTC`, or hours and minutes as `-05:30`. Names of other zones are not known.
fn read_zone(text: &str) -> Outcome<i32> {
    let Some((hours, minutes)) = text.split_once(':') else {
        return match text {
            "" | "UTC" => Ok(0),
            _ => error(format!("unknown time zone {text}")),
        };
    };
    let number = |text: &str| match text.parse::<i32>() {
        Ok(number) => Ok(number),
        Err(_) => error(format!(
            "strconv.Atoi: parsing {}: invalid syntax",
            crate::text::quoting::go_quote(text)
        )),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if text.starts_with('-') {
        -minutes
    } else {
        minutes
    };
    let total = i64::from(hours) * 3600 + i64::from(minutes) * 60;
    // Further zones do not exist.
    i32::try_from(total.clamp(-86_399, 86_399)).map_or(Ok(0), Ok)
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
