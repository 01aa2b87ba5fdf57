//! The `Date` header, formatted once a second.

use std::cell::RefCell;

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::clock;

/// The date header of one thread.
#[derive(Debug, Default)]
pub(in crate::transport) struct HttpDate {
    last: RefCell<Option<(i64, HeaderValue)>>,
}

impl HttpDate {
    /// The current date.
    pub(in crate::transport) fn now(&self) -> HeaderValue {
        self.at(clock::now())
    }

    fn at(&self, time: Timestamp) -> HeaderValue {
        let second = time.as_second();
        let mut last = self.last.borrow_mut();
        match &*last {
            Some((known, value)) if *known == second => value.clone(),
            _ => {
                let mut value = format(&time);
                // A value for each second would fill the compression table of an HTTP/2
                // connection.
                value.set_sensitive(true);
                *last = Some((second, value.clone()));
                value
            }
        }
    }
}

/// Formats a time. For a time outside the range of HTTP dates the header is empty, which is
/// harmless.
fn format(time: &Timestamp) -> HeaderValue {
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(time)
        .ok()
        .and_then(|text| HeaderValue::try_from(text).ok())
        .unwrap_or_else(|| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_http_wants_it_and_changes_with_the_second() {
        let date = HttpDate::default();
        let at = |second| date.at(Timestamp::from_second(second).unwrap());
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(784_111_778), "Sun, 06 Nov 1994 08:49:38 GMT");
    }

    #[test]
    fn a_date_follows_a_clock_that_is_set_back_and_is_there_at_the_ends_of_time() {
        let date = HttpDate::default();
        let late = date.at(Timestamp::MAX);
        assert!(late.to_str().unwrap().contains(" Dec 9999 "), "{late:?}");
        let early = date.at(Timestamp::UNIX_EPOCH);
        assert_eq!(early, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
