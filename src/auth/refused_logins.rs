//! Logs refused logins. Clients decide how many there are, so the log has a few in a row and then
//! one per interval.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::USER_AGENT;
use parking_lot::Mutex;

use super::authenticator::Unauthorized;

/// The interval between lines while refusals continue.
const EVERY: Duration = Duration::from_secs(10);

/// The number of lines in a row after a quiet time.
const BURST: u32 = 5;

/// The most bytes of a user agent that are shown, before escaping.
const AGENT_BYTES_MAX: usize = 100;

/// The refused logins of the process.
#[derive(Debug, Default)]
pub struct RefusedLogins {
    rate: Mutex<LineRate>,
}

impl RefusedLogins {
    /// Logs a refused login if a line is due. The line names the client and the reason, never the
    /// credentials.
    pub fn log(&self, peer: Option<SocketAddr>, headers: &HeaderMap, reason: &Unauthorized) {
        let Some((untold, within)) = self.rate.lock().turn(Instant::now()) else {
            return;
        };
        let peer = peer.map(tracing::field::display);
        let user_agent = shown_agent(headers);
        let within = (untold > 0).then(|| format!("{}s", within.as_secs()));
        tracing::warn!(peer, user_agent, %reason, untold, within, "a login was refused");
    }
}

/// The name of the client program, escaped so that it cannot harm a terminal or a log reader.
fn shown_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT);
    let agent = agent.map(|agent| agent.as_bytes()).unwrap_or_default();
    match agent.split_at_checked(AGENT_BYTES_MAX) {
        Some((start, rest)) if !rest.is_empty() => format!("{}...", start.escape_ascii()),
        _ => agent.escape_ascii().to_string(),
    }
}

/// Decides when a line is due.
#[derive(Debug, Default)]
struct LineRate {
    /// The time at which the full burst is available again.
    paid_at: Option<Instant>,
    told_at: Option<Instant>,
    untold: u64,
}

impl LineRate {
    /// Returns `None` if no line may be written now. Otherwise returns how many were left out since
    /// the last line, and how long ago that was.
    fn turn(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let paid_at = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        if paid_at.duration_since(now) > EVERY * (BURST - 1) {
            self.untold += 1;
            return None;
        }
        self.paid_at = Some(paid_at + EVERY);
        let told_at = self.told_at.replace(now).unwrap_or(now);
        let within = now.saturating_duration_since(told_at);
        Some((std::mem::take(&mut self.untold), within))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_few_lines_in_a_row_and_then_one_now_and_then_that_says_what_was_left_out() {
        let mut rate = LineRate::default();
        let start = Instant::now();
        let told = |rate: &mut LineRate, at: Duration| {
            let turns = (0..1000).filter_map(|_| rate.turn(start + at));
            turns.collect::<Vec<_>>()
        };
        let none = (0, Duration::ZERO);
        assert_eq!(told(&mut rate, Duration::ZERO), [none; BURST as usize]);
        assert_eq!(told(&mut rate, EVERY), [(995, EVERY)]);
        assert!(told(&mut rate, EVERY + EVERY / 2).is_empty());
        assert_eq!(told(&mut rate, EVERY * 2), [(1999, EVERY)]);
        // Refusals left out long ago are not reported as current.
        let rested = told(&mut rate, EVERY * 100);
        assert_eq!(rested, [(999, EVERY * 98), none, none, none, none]);
    }

    #[test]
    fn a_user_agent_is_escaped_and_cut() {
        let shown = |agent: &[u8]| {
            let agent = HeaderValue::from_bytes(agent).unwrap();
            shown_agent(&[(USER_AGENT, agent)].into_iter().collect())
        };
        assert_eq!(shown_agent(&HeaderMap::new()), "");
        assert_eq!(shown(b"kubectl/v1.32"), "kubectl/v1.32");
        assert_eq!(shown(b"a\tb\"\xff\x9b2J"), "a\\tb\\\"\\xff\\x9b2J");
        assert_eq!(shown(&[b'a'; AGENT_BYTES_MAX]).len(), AGENT_BYTES_MAX);
        assert_eq!(shown(&[0xff; 60_000]).len(), 4 * AGENT_BYTES_MAX + 3);
    }
}
