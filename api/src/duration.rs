//! Durations in the short form of Tables (API-77), and in the form of Go's parameters (API-15).

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time since `then` in short human form (API-77). `None` and the epoch of an unset time give
/// `<unknown>`.
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        Some(then) => human_duration(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds in short human form (API-77).
pub fn human_duration(seconds: i64) -> String {
    let pair = |first: i64, unit: &str, rest: i64, smaller: &str| match rest {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{rest}{smaller}"),
    };
    match seconds {
        // Clock skew of up to two seconds counts as now.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => pair(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => pair(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Reads a duration as Go's clients write it: `1m30s`, `250ms`, `0` (API-15). Negative durations
/// are refused.
///
/// # Errors
/// The fault in the text.
pub fn parse_go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        if after.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        total += number
            * unit_seconds(unit)
                .ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        rest = next;
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    Duration::try_from_secs_f64(total).map_err(|_| invalid())
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-77, at both sides of every boundary.
    #[test]
    fn ages_are_short() {
        let cases = [
            (-3, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 - 1, "7h59m"),
            (8 * 3600, "8h"),
            (48 * 3600 - 1, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400 - 1, "7d23h"),
            (8 * 86_400, "8d"),
            (730 * 86_400 - 1, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (8 * 365 * 86_400 - 1, "7y364d"),
            (8 * 365 * 86_400, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
        assert_eq!(age(None, Timestamp::UNIX_EPOCH), "<unknown>");
        let later = Timestamp::from_second(60).unwrap();
        assert_eq!(age(Some(Timestamp::UNIX_EPOCH), later), "60s");
    }

    /// API-15, with the errors of kube-apiserver.
    #[test]
    fn go_durations_are_read() {
        let seconds = |text: &str| parse_go_duration(text).map(|d| d.as_secs_f64());
        assert_eq!(seconds("0"), Ok(0.0));
        assert_eq!(seconds("1m30s"), Ok(90.0));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert_eq!(seconds("250ms"), Ok(0.25));
        assert_eq!(seconds("+5s"), Ok(5.0));
        assert_eq!(seconds("-1s"), Ok(0.0));
        let refused = |text: &str| parse_go_duration(text).unwrap_err();
        assert_eq!(refused("x"), "time: invalid duration \"x\"");
        assert_eq!(refused(""), "time: invalid duration \"\"");
        assert_eq!(refused("5"), "time: missing unit in duration \"5\"");
        assert_eq!(
            refused("1e3s"),
            "time: unknown unit \"e\" in duration \"1e3s\""
        );
        assert!(parse_go_duration(&format!("{}h", "9".repeat(400))).is_err());
    }
}
