//! Logs refused logins, and decides which refusals get a line in the log. Clients decide how many
//! there are, so each client has one line a minute for refusals of the same sort.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem::discriminant;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::USER_AGENT;
use parking_lot::Mutex;

use super::authenticator::{Credentials, Unauthorized};
use crate::addresses::network;

/// The time from one line to the next about the same.
const EVERY: Duration = Duration::from_secs(60);

/// The most clients and users of which the last line is remembered. Others share lines.
const KNOWN_MAX: usize = 4096;

/// The shortest time between two searches for what can be forgotten.
const SWEEP: Duration = Duration::from_secs(1);

/// The most bytes of a user agent that are shown, before escaping.
const AGENT_BYTES_MAX: usize = 100;

/// The most characters of a reason that are shown.
const REASON_CHARS_MAX: usize = 512;

/// The refused logins of the process.
#[derive(Debug, Default)]
pub struct RefusedLogins {
    lines: RefusalLines,
}

impl RefusedLogins {
    /// Logs a refused login if a line is due. The line names the client and the reason, never the
    /// credentials.
    pub fn log(
        &self,
        peer: Option<SocketAddr>,
        headers: &HeaderMap,
        credentials: &Credentials<'_>,
        reason: &Unauthorized,
    ) {
        let from = peer.map(|peer| network(peer.ip()));
        let Some(Omitted { count, within }) = self.lines.turn((from, sort(reason))) else {
            return;
        };
        let peer = peer.map(tracing::field::display);
        let user_agent = shown_agent(headers);
        let reason = shown_reason(reason, credentials.bearer);
        tracing::warn!(peer, user_agent, %reason, untold = count, within, "a login was refused");
    }
}

/// Returns what distinguishes sorts of refusals: a number for each, whatever the texts are.
fn sort(reason: &Unauthorized) -> Vec<(std::mem::Discriminant<Unauthorized>, Option<String>)> {
    let one = |reason: &Unauthorized| {
        // A refused certificate has one of a few texts.
        let text = match reason {
            Unauthorized::Certificate(refused) => Some(refused.to_string()),
            _ => None,
        };
        (discriminant(reason), text)
    };
    match reason {
        Unauthorized::Several(reasons) => reasons.iter().map(one).collect(),
        reason => vec![one(reason)],
    }
}

/// Returns the reason without the token, which a webhook may repeat, and without what could harm a
/// terminal.
fn shown_reason(reason: &Unauthorized, token: Option<&[u8]>) -> String {
    let mut text = reason.to_string();
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        text = text.replace(token, "<the token>");
    }
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count >= REASON_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        // Writing to a string cannot fail.
        let _ = match character.is_control() {
            true => write!(shown, "{}", character.escape_default()),
            false => write!(shown, "{character}"),
        };
    }
    shown
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

/// The refusals without a line since the last line about the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Their number.
    pub count: u64,
    /// How long ago the last line was, if any was left out since.
    pub within: Option<String>,
}

/// Decides which refusals get a line: one a minute for each client and sort of refusal. When there
/// are very many clients, further ones share their lines.
#[derive(Debug, Default)]
pub struct RefusalLines {
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last lines, by the hash of what they were about.
    known: HashMap<u64, Line>,
    /// The last line about all others.
    others: Option<Line>,
    swept_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Line {
    written_at: Instant,
    omitted: u64,
}

impl RefusalLines {
    /// Returns `None` if this refusal gets no line.
    pub fn turn(&self, about: impl Hash) -> Option<Omitted> {
        self.turn_at(about, Instant::now())
    }

    fn turn_at(&self, about: impl Hash, now: Instant) -> Option<Omitted> {
        let key = self.hasher.hash_one(about);
        let mut state = self.state.lock();
        if let Some(line) = state.known.get_mut(&key) {
            return line.turn(now);
        }
        if state.known.len() >= KNOWN_MAX {
            state.sweep(now);
        }
        let line = Line {
            written_at: now,
            omitted: 0,
        };
        if state.known.len() >= KNOWN_MAX {
            return match &mut state.others {
                Some(others) => others.turn(now),
                others => {
                    *others = Some(line);
                    Some(Omitted::none())
                }
            };
        }
        state.known.insert(key, line);
        Some(Omitted::none())
    }
}

impl State {
    /// Forgets what would get a line now.
    fn sweep(&mut self, now: Instant) {
        let swept_at = self.swept_at.replace(now);
        if swept_at.is_some_and(|at| now.saturating_duration_since(at) < SWEEP) {
            self.swept_at = swept_at;
            return;
        }
        let is_recent = |line: &Line| now.saturating_duration_since(line.written_at) < EVERY;
        self.known.retain(|_, line| is_recent(line));
    }
}

impl Line {
    fn turn(&mut self, now: Instant) -> Option<Omitted> {
        let since = now.saturating_duration_since(self.written_at);
        if since < EVERY {
            self.omitted += 1;
            return None;
        }
        self.written_at = now;
        let count = std::mem::take(&mut self.omitted);
        Some(Omitted {
            count,
            within: (count > 0).then(|| format!("{}s", since.as_secs())),
        })
    }
}

impl Omitted {
    fn none() -> Omitted {
        Omitted {
            count: 0,
            within: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::x509::Refused;

    #[test]
    fn a_client_has_one_line_a_minute_that_says_what_was_left_out() {
        let (lines, start) = (RefusalLines::default(), Instant::now());
        let at = |about: &str, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let turns = (0..1000).filter_map(|_| lines.turn_at(about, now));
            turns.collect::<Vec<_>>()
        };
        assert_eq!(at("a", 0), [Omitted::none()]);
        assert_eq!(at("b", 1), [Omitted::none()], "another client");
        assert_eq!(at("a", 59), []);
        let omitted = |count, within: &str| Omitted {
            count,
            within: Some(within.to_owned()),
        };
        assert_eq!(at("a", 60), [omitted(1999, "60s")]);
        assert_eq!(at("b", 500), [omitted(999, "499s")]);
    }

    #[test]
    fn very_many_clients_share_lines_and_memory_is_bounded() {
        let (lines, start) = (RefusalLines::default(), Instant::now());
        let told = |numbers: std::ops::Range<usize>, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let told = numbers.filter(|number| lines.turn_at(number, now).is_some());
            told.count()
        };
        assert_eq!(told(0..100_000, 0), KNOWN_MAX + 1);
        assert_eq!(lines.state.lock().known.len(), KNOWN_MAX);
        assert_eq!(told(50_000..100_000, 59), 0);
        // After a minute all is forgotten, and a client that comes again gets a line.
        assert_eq!(told(50_000..50_001, 61), 1);
        assert_eq!(lines.state.lock().known.len(), 1);
    }

    #[test]
    fn sorts_of_refusals_are_few() {
        let texts = ["a", "b"].map(|text| Unauthorized::Token(text.to_owned()));
        assert_eq!(sort(&texts[0]), sort(&texts[1]));
        let refused = [Refused::Key, Refused::Uid].map(Unauthorized::Certificate);
        assert_ne!(sort(&refused[0]), sort(&refused[1]));
        let [first, second] = texts;
        let several = Unauthorized::Several(vec![first.clone(), second]);
        assert_ne!(sort(&several), sort(&first));
    }

    #[test]
    fn a_reason_has_no_token_and_no_control_characters_and_an_end() {
        let reason = Unauthorized::Token(format!("secret\u{9b}\n{}", "x".repeat(9000)));
        let shown = shown_reason(&reason, Some(b"secret"));
        let start = "the token is refused: <the token>\\u{9b}\\nxx";
        assert!(shown.starts_with(start), "{shown}");
        assert!(shown.len() < 540, "{}", shown.len());
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
