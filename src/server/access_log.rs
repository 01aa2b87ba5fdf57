//! The access log: a line for each request, or for each that failed.
//!
//! The failures are those that an operator looks for: 403, 429, and errors of the daemon itself. A
//! 404 or a 409 is part of normal operation, and refused logins have their own lines. The rate of
//! failure lines is limited, because anybody can cause them: what the authorizers refuse gets one
//! line a minute for each client and user.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;

use super::filters::in_flight::is_probe;
use crate::addresses::network;
use crate::api::request_info::RequestInfo;
use crate::auth::{Omitted, RefusalLines};
use crate::config::AccessLogMode;

/// The limit on failure lines per second.
const FAILURES_PER_SECOND: u32 = 20;

/// Longer texts from clients are truncated.
const TEXT_CHARS_MAX: usize = 256;

/// Decides which requests to log, and logs them.
#[derive(Debug)]
pub struct AccessLog {
    mode: AccessLogMode,
    rate: Mutex<Rate>,
    /// The lines about requests that the authorizers refuse.
    refusals: RefusalLines,
}

/// The number of lines written in the current second.
#[derive(Debug)]
struct Rate {
    second: Instant,
    lines: u32,
    untold: u64,
}

/// The fields of a line about a request.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRequest<'r> {
    /// Its audit ID.
    pub audit_id: &'r str,
    /// The name of the user, if it is known.
    pub user: Option<&'r str>,
    /// The request info, if the URL was understood.
    pub info: Option<&'r RequestInfo>,
    /// The name of the object in the body, or its generated name.
    pub name: Option<&'r str>,
    /// The address of the client.
    pub peer: Option<IpAddr>,
    /// Whether an authorizer has refused the request.
    pub is_refused: bool,
}

impl AccessLog {
    /// Creates a log with this mode.
    pub fn new(mode: AccessLogMode) -> AccessLog {
        AccessLog {
            mode,
            rate: Mutex::new(Rate {
                second: Instant::now(),
                lines: 0,
                untold: 0,
            }),
            refusals: RefusalLines::default(),
        }
    }

    /// Whether to log a request with this outcome. A probe never counts as a failure: it repeats,
    /// and its result is reported elsewhere.
    pub fn wants(&self, info: Option<&RequestInfo>, code: StatusCode) -> bool {
        match self.mode {
            AccessLogMode::Off => false,
            AccessLogMode::All => true,
            AccessLogMode::Failures => is_failure(code) && !info.is_some_and(is_probe),
        }
    }

    /// Writes the line of a request, unless the rate limit drops it.
    pub fn write(&self, request: &LoggedRequest<'_>, code: StatusCode, took: Duration) {
        let Some(Omitted { count, within }) = self.turn(request) else {
            return;
        };
        let untold = (count > 0).then_some(count);
        let unknown = RequestInfo::default();
        let info = request.info.unwrap_or(&unknown);
        let names = [info.name.as_str(), request.name.unwrap_or_default()];
        let name = names.into_iter().find(|name| !name.is_empty());
        let text = |text: &str| {
            let shown: String = text.chars().take(TEXT_CHARS_MAX).collect();
            (!text.is_empty()).then_some(shown)
        };
        tracing::info!(
            audit_id = request.audit_id,
            peer = request.peer.map(tracing::field::display),
            user = request.user.and_then(text),
            verb = %info.verb,
            group = text(&info.group),
            resource = text(&info.resource),
            subresource = text(&info.subresource),
            namespace = text(&info.namespace),
            name = name.and_then(text),
            path = text(&info.path).filter(|_| !info.is_resource),
            code = code.as_u16(),
            milliseconds = took.as_micros() as f64 / 1e3,
            untold,
            within,
            "request"
        );
    }
}

impl AccessLog {
    /// Returns `None` if a request gets no line. Refusals of the authorizers have one line a
    /// minute for each client and user, since a client that is refused often goes on.
    fn turn(&self, request: &LoggedRequest<'_>) -> Option<Omitted> {
        let none = Omitted {
            count: 0,
            within: None,
        };
        if self.mode == AccessLogMode::All {
            return Some(none);
        }
        if request.is_refused {
            let peer = request.peer.map(network);
            return self.refusals.turn((peer, request.user));
        }
        let count = self.rate.lock().turn(Instant::now())?;
        Some(Omitted { count, ..none })
    }
}

fn is_failure(code: StatusCode) -> bool {
    code.is_server_error() || matches!(code.as_u16(), 403 | 429)
}

impl Rate {
    /// Returns how many lines were dropped before this one, or `None` if this one is dropped too.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.lines = 0;
        }
        if self.lines >= FAILURES_PER_SECOND {
            self.untold += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_what_an_operator_looks_for() {
        let log = AccessLog::new(AccessLogMode::Failures);
        for (code, is_told) in [
            (200, false),
            (404, false),
            (409, false),
            (401, false),
            (403, true),
            (429, true),
            (500, true),
            (504, true),
        ] {
            assert_eq!(
                log.wants(None, StatusCode::from_u16(code).unwrap()),
                is_told,
                "{code}"
            );
        }
        let probe = RequestInfo::parse(&http::Method::GET, "/readyz", false, "").unwrap();
        assert!(!log.wants(Some(&probe), StatusCode::INTERNAL_SERVER_ERROR));
        assert!(AccessLog::new(AccessLogMode::All).wants(None, StatusCode::OK));
        assert!(!AccessLog::new(AccessLogMode::Off).wants(None, StatusCode::BAD_GATEWAY));
    }

    #[test]
    fn lines_are_bounded_and_those_left_out_are_counted() {
        let start = Instant::now();
        let mut rate = Rate {
            second: start,
            lines: 0,
            untold: 0,
        };
        let told = (0..100).filter(|_| rate.turn(start).is_some()).count();
        assert_eq!(told, FAILURES_PER_SECOND as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!(rate.turn(later), Some(100 - u64::from(FAILURES_PER_SECOND)));
        assert_eq!(rate.turn(later), Some(0));
    }
}
