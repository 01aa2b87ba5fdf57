//! Times as Go parses and prints them (API-62). The year may have any number of digits, which
//! Rust's libraries for times do not support.

use super::quoting::go_quote;

/// A point in time: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoTime {
    /// Seconds since 1970; negative before it.
    pub seconds: i64,
    /// Nanoseconds after these seconds.
    pub nanoseconds: u32,
}

/// The number of decimals of a printed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimals {
    /// Any number in the input, none in the output.
    Any,
    /// Exactly six.
    Six,
}

impl Decimals {
    /// Returns the Go layout of the form.
    fn layout(self) -> &'static str {
        match self {
            Decimals::Any => "2006-01-02T15:04:05Z07:00",
            Decimals::Six => "2006-01-02T15:04:05.000000Z07:00",
        }
    }

    /// Returns whether a valid time is already written as Go prints it, with a year of four digits.
    fn is_form_of(self, text: &str) -> bool {
        let form: &[u8] = match self {
            Decimals::Any => b"0000-00-00T00:00:00Z",
            Decimals::Six => b"0000-00-00T00:00:00.000000Z",
        };
        let is_alike = |(found, wanted): (&u8, &u8)| match wanted {
            b'0' => found.is_ascii_digit(),
            _ => found == wanted,
        };
        text.len() == form.len() && text.as_bytes().iter().zip(form).all(is_alike)
    }
}

/// The reason why a text is not a time.
enum Fault<'t> {
    /// This part is out of range.
    Range(&'static str),
    /// The rest of the text does not begin with this part of the layout.
    Form(&'t str, &'static str),
    /// This text follows the time.
    Extra(&'t str),
}

const SECONDS_OF_DAY: i64 = 86_400;

impl GoTime {
    /// Go's zero time: the first second of the year 1.
    pub(crate) const ZERO: GoTime = GoTime {
        seconds: -62_135_596_800,
        nanoseconds: 0,
    };

    /// Parses a time, and keeps the decimals of the form.
    ///
    /// # Errors
    /// Go's error for an invalid time.
    pub(crate) fn read(text: &str, decimals: Decimals) -> Result<GoTime, String> {
        let mut time = read_layout(text, decimals).map_err(|fault| {
            let (text, layout) = (go_quote(text), decimals.layout());
            match fault {
                Fault::Range(part) => format!("parsing time {text}: {part} out of range"),
                Fault::Form(rest, part) => format!(
                    "parsing time {text} as \"{layout}\": cannot parse {} as {}",
                    go_quote(rest),
                    go_quote(part)
                ),
                Fault::Extra(rest) => {
                    format!("parsing time {text}: extra text: {}", go_quote(rest))
                }
            }
        })?;
        if decimals == Decimals::Any {
            time.nanoseconds = 0;
        }
        Ok(time)
    }

    /// Parses the output of [`GoTime::print`]. Its year may have more digits than Go can parse.
    pub(crate) fn of_printed(text: &str) -> Option<GoTime> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let (written, rest) = digits.split_once('-')?;
        let year: i64 = written.parse().ok().filter(|year| *year < 1 << 40)?;
        // The calendar repeats every 400 years.
        let year = sign * year;
        let near = 2000 + year.rem_euclid(400);
        if near == year && written.len() == 4 {
            return read_layout(text, Decimals::Any).ok();
        }
        let text = format!("{near}-{rest}");
        let time = read_layout(&text, Decimals::Any).ok()?;
        Some(GoTime {
            seconds: time.seconds + (year - near) / 400 * 146_097 * SECONDS_OF_DAY,
            ..time
        })
    }

    /// Formats the time in UTC.
    pub(crate) fn print(self, decimals: Decimals) -> String {
        let days = self.seconds.div_euclid(SECONDS_OF_DAY);
        let second = self.seconds.rem_euclid(SECONDS_OF_DAY);
        let (year, month, day) = civil(days);
        let sign = if year < 0 { "-" } else { "" };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = match decimals {
            Decimals::Any => String::new(),
            Decimals::Six => format!(".{:06}", self.nanoseconds / 1000),
        };
        let year = year.unsigned_abs();
        format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

/// Returns a time in UTC with whole seconds or six decimals (API-62). The zero time becomes `None`.
///
/// # Errors
/// Go's error for an invalid time.
pub(crate) fn canonical(text: &str, decimals: Decimals) -> Result<Option<String>, String> {
    let time = GoTime::read(text, decimals)?;
    Ok((time != GoTime::ZERO).then(|| {
        if decimals.is_form_of(text) {
            text.to_owned()
        } else {
            time.print(decimals)
        }
    }))
}

/// Returns the days since 1970 of a date, in a calendar whose years begin in March, so that leap
/// days come last.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let in_era = year.rem_euclid(400);
    let of_era = in_era * 365 + in_era / 4 - in_era / 100 + of_year;
    year.div_euclid(400) * 146_097 + of_era - 719_468
}

/// Returns year, month and day of a day, by the days since 1970.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let of_era = days.rem_euclid(146_097);
    let in_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * in_era + in_era / 4 - in_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    let year = days.div_euclid(146_097) * 400 + in_era + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

fn days_in(month: i64, year: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses a number of exactly this many digits at the start of a text. Returns it with the rest.
fn digits(text: &str, count: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

fn read_layout(text: &str, decimals: Decimals) -> Result<GoTime, Fault<'_>> {
    let part = |rest, part| digits(rest, 2).ok_or(Fault::Form(rest, part));
    let (year, rest) = digits(text, 4).ok_or(Fault::Form(text, "2006"))?;
    let (month, rest) = part(skip(rest, "-")?, "01")?;
    in_range(month, 1..=12, "month")?;
    let (day, rest) = part(skip(rest, "-")?, "02")?;
    let rest = skip(rest, "T")?;
    // Go accepts an hour of one digit.
    let hour = digits(rest, 2).or_else(|| digits(rest, 1));
    let (hour, rest) = hour.ok_or(Fault::Form(rest, "15"))?;
    in_range(hour, 0..=23, "hour")?;
    let (minute, rest) = part(skip(rest, ":")?, "04")?;
    in_range(minute, 0..=59, "minute")?;
    let (second, rest) = part(skip(rest, ":")?, "05")?;
    in_range(second, 0..=59, "second")?;
    let (nanoseconds, rest) = fraction(rest, decimals)?;
    let (offset, rest) = zone(rest)?;
    if !rest.is_empty() {
        return Err(Fault::Extra(rest));
    }
    in_range(day, 1..=days_in(month, year), "day")?;
    let of_day = hour * 3600 + minute * 60 + second;
    Ok(GoTime {
        seconds: days_of(year, month, day) * SECONDS_OF_DAY + of_day - offset,
        nanoseconds,
    })
}

fn skip<'t>(text: &'t str, separator: &'static str) -> Result<&'t str, Fault<'t>> {
    let rest = text.strip_prefix(separator);
    rest.ok_or(Fault::Form(text, separator))
}

fn in_range(
    number: i64,
    range: std::ops::RangeInclusive<i64>,
    part: &'static str,
) -> Result<(), Fault<'static>> {
    if range.contains(&number) {
        Ok(())
    } else {
        Err(Fault::Range(part))
    }
}

/// Parses nanoseconds after a point or a comma. Decimals after the ninth are ignored.
fn fraction(text: &str, decimals: Decimals) -> Result<(u32, &str), Fault<'_>> {
    let following = text.strip_prefix(['.', ',']);
    let given = following.map_or(0, |following| {
        following.bytes().take_while(u8::is_ascii_digit).count()
    });
    let count = match decimals {
        Decimals::Any => given,
        Decimals::Six if given < 6 => return Err(Fault::Form(text, ".000000")),
        Decimals::Six => 6,
    };
    let Some((fraction, rest)) = following.and_then(|following| following.split_at_checked(count))
    else {
        return Ok((0, text));
    };
    if count == 0 {
        return Ok((0, text));
    }
    let nine = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = nine.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Ok((nanoseconds, rest))
}

/// Parses a time zone into seconds east of UTC. Like Go, accepts offsets of 24 hours or 60 minutes.
fn zone(text: &str) -> Result<(i64, &str), Fault<'_>> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Ok((0, rest));
    }
    let wrong = || Fault::Form(text, "Z07:00");
    let (sign, rest) = text.split_at_checked(1).ok_or_else(wrong)?;
    let (hours, rest) = digits(rest, 2).ok_or_else(wrong)?;
    let rest = rest.strip_prefix(':').ok_or_else(wrong)?;
    let (minutes, rest) = digits(rest, 2).ok_or_else(wrong)?;
    in_range(minutes, 0..=60, "time zone offset minute")?;
    in_range(hours, 0..=24, "time zone offset hour")?;
    let offset = hours * 3600 + minutes * 60;
    match sign {
        "+" => Ok((offset, rest)),
        "-" => Ok((-offset, rest)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> [String; 2] {
        [Decimals::Any, Decimals::Six].map(|decimals| match GoTime::read(text, decimals) {
            Ok(time) => time.print(decimals),
            Err(why) => why,
        })
    }

    /// API-62: the results of kube-apiserver 1.36 for a Time and a MicroTime. `^` stands for the
    /// text.
    #[test]
    fn times_are_parsed_as_in_go() {
        let none = "parsing time ^ as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse";
        for (text, time, micro) in [
            (
                "9999-12-31T23:59:59Z",
                "9999-12-31T23:59:59Z",
                "\"Z\" as \".000000\"",
            ),
            (
                "9999-12-31T23:59:59.000000-01:00",
                "10000-01-01T00:59:59Z",
                "10000-01-01T00:59:59.000000Z",
            ),
            (
                "0000-01-01T00:00:00.000000+01:00",
                "-0001-12-31T23:00:00Z",
                "-0001-12-31T23:00:00.000000Z",
            ),
            (
                "2001-02-03T04:05:06.1234567890Z",
                "2001-02-03T04:05:06Z",
                "\"7890Z\" as \"Z07:00\"",
            ),
            (
                "2001-02-03T04:05:06,5Z",
                "2001-02-03T04:05:06Z",
                "\",5Z\" as \".000000\"",
            ),
            (
                "2001-02-03T04:05:06,500000Z",
                "2001-02-03T04:05:06Z",
                "2001-02-03T04:05:06.500000Z",
            ),
            (
                "2001-02-03T4:05:06.123456Z",
                "2001-02-03T04:05:06Z",
                "2001-02-03T04:05:06.123456Z",
            ),
            (
                "2001-02-03T04:05:06.123456+24:60",
                "2001-02-02T03:05:06Z",
                "2001-02-02T03:05:06.123456Z",
            ),
            (
                "1969-12-31T23:59:59.500000Z",
                "1969-12-31T23:59:59Z",
                "1969-12-31T23:59:59.500000Z",
            ),
            (
                "2001-02-30T04:05:06.123456+25:00",
                "parsing time ^: time zone offset hour out of range",
                "parsing time ^: time zone offset hour out of range",
            ),
            (
                "2001-02-03T04:05:06.123456+99:99",
                "parsing time ^: time zone offset minute out of range",
                "parsing time ^: time zone offset minute out of range",
            ),
            (
                "2001-02-29T00:00:00.000000Z",
                "parsing time ^: day out of range",
                "parsing time ^: day out of range",
            ),
            (
                "2000-02-29T00:00:00Z",
                "2000-02-29T00:00:00Z",
                "\"Z\" as \".000000\"",
            ),
            (
                "1900-02-29T00:00:00.000000Z",
                "parsing time ^: day out of range",
                "parsing time ^: day out of range",
            ),
        ] {
            let quoted = go_quote(text).to_string();
            let expected = [time, micro].map(|expected| {
                let whole = match expected.starts_with('"') {
                    true => format!("{none} {expected}"),
                    false => expected.to_owned(),
                };
                whole.replace('^', &quoted)
            });
            assert_eq!(both(text), expected, "{text}");
        }
    }

    #[test]
    fn printed_times_are_parsed_again() {
        let day = SECONDS_OF_DAY;
        let seconds = [
            -62_135_596_800,
            -70_000_000_000,
            0,
            -1,
            253_402_300_800,
            1 << 50,
        ];
        for seconds in seconds
            .into_iter()
            .chain((-800_000..800_000).step_by(997).map(|n| n * day))
        {
            let time = GoTime {
                seconds,
                nanoseconds: 123_456_000,
            };
            let text = time.print(Decimals::Six);
            assert_eq!(GoTime::of_printed(&text), Some(time), "{text}");
        }
        assert_eq!(GoTime::ZERO.print(Decimals::Any), "0001-01-01T00:00:00Z");
        assert_eq!(GoTime::of_printed("x"), None);
    }
}
