//! The wall clock, within the range that can be formatted. Libraries panic at times before 1970 and
//! after the year 9999. The start refuses such a time, and later it is replaced by the nearest
//! valid one.
//!
//! A test may move the clock of its server forward ([`advance`]). [`now`] and [`moment`] follow it.
//! Certificates are judged by other programs, too, and so by the clock of the machine
//! ([`of_machine`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use actors::clock::{OwnClock, moment, own, reached};
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;

/// The clock shows a time out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine's clock shows a time {0}, which no certificate and no object can carry; set it"
)]
pub struct ClockError(&'static str);

/// The year that no clock passes.
const LATEST_YEAR: i16 = 9000;

/// Returns the current time.
pub fn now() -> Timestamp {
    nearest(actors::clock::now())
}

/// Returns the current time as the standard library has it.
pub fn system_time() -> SystemTime {
    actors::clock::now()
}

/// Returns the current time of the machine, which no test moves.
pub fn of_machine() -> Timestamp {
    nearest(SystemTime::now())
}

/// Moves the clock of a server forward. It never passes the year 9000, so that times which are
/// some years later, as those of tokens, can still be written.
///
/// # Errors
/// It would pass that year. It has not moved.
pub fn advance(clock: OwnClock, by: Duration) -> Result<(), String> {
    let latest = date(LATEST_YEAR, 1, 1).to_zoned(TimeZone::UTC);
    let latest = latest.map_or(Timestamp::MAX, |latest| latest.timestamp());
    let advanced = clock.advance(by, SystemTime::from(latest));
    advanced.map_err(|_| format!("the clock would pass the year {LATEST_YEAR}"))
}

/// Returns the current time in seconds since 1970, as [`now`] does.
pub fn now_in_seconds() -> i64 {
    let since = actors::clock::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    seconds.min(Timestamp::MAX.as_second())
}

/// Checks that a time is in range.
///
/// # Errors
/// [`ClockError`] before 1970 and after the year 9999.
pub fn check(time: SystemTime) -> Result<(), ClockError> {
    if time < UNIX_EPOCH {
        return Err(ClockError("before 1970"));
    }
    match Timestamp::try_from(time) {
        Ok(_) => Ok(()),
        Err(_) => Err(ClockError("after the year 9999")),
    }
}

fn nearest(time: SystemTime) -> Timestamp {
    match check(time) {
        Ok(()) => Timestamp::try_from(time).unwrap_or(Timestamp::MAX),
        Err(_) if time < UNIX_EPOCH => Timestamp::UNIX_EPOCH,
        Err(_) => Timestamp::MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_that_nothing_can_carry_are_refused_and_count_as_the_nearest_one() {
        let year = Duration::from_secs(365 * 86_400);
        let early = UNIX_EPOCH - Duration::from_nanos(1);
        let late = UNIX_EPOCH + year * 8100;
        for (time, words, nearest_time) in [
            (early, "before 1970", Timestamp::UNIX_EPOCH),
            (
                UNIX_EPOCH - 20_000 * year,
                "before 1970",
                Timestamp::UNIX_EPOCH,
            ),
            (late, "after the year 9999", Timestamp::MAX),
        ] {
            let told = check(time).unwrap_err().to_string();
            assert!(told.contains(words) && told.contains("set it"), "{told}");
            assert_eq!(nearest(time), nearest_time);
        }
        for time in [UNIX_EPOCH, UNIX_EPOCH + year * 8000] {
            check(time).unwrap();
            assert_eq!(SystemTime::from(nearest(time)), time);
        }
        check(SystemTime::now()).unwrap();
    }
}
