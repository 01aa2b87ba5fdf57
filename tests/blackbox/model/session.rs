//! Clients that watch part of a collection in every possible way, and record what they receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::objects::{Kind, Selection, read};
use crate::harness::{Call, Client, Protocol, Target, version};
use crate::load::{CatchUpDeadline, Random, WatchEvent, WriteLog, event};

/// What all clients share.
pub struct Common {
    pub target: Target,
    pub write_log: Arc<WriteLog>,
    /// The minimum time that history is kept.
    pub retention: Duration,
    /// Odd while the daemon is being restarted.
    pub restarts: AtomicU64,
    /// The version of the last write of each kind, 0 until known.
    pub until: [AtomicU64; 3],
}

impl Common {
    /// The version at which watches of a kind may stop, 0 until known.
    pub fn until(&self, kind: Kind) -> u64 {
        self.until[kind as usize].load(Ordering::SeqCst)
    }
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// After this version.
    After(u64),
    /// With a state at least as new as this.
    State { at_least: u64 },
}

/// One stream, over as many watches as its client resumed it.
#[derive(Debug)]
pub struct Session {
    pub selection: Selection,
    pub representation: Representation,
    pub start: Start,
    /// The version of the bookmark that closed the initial state.
    pub initial_end: Option<u64>,
    pub received: Vec<WatchEvent>,
    /// Versions of bookmarks, with the number of events before each.
    pub bookmarks: Vec<(usize, u64)>,
    /// The version to resume from, if known.
    pub at: Option<u64>,
    pub watches: u64,
    /// Whether a watch ended with 410 Gone.
    pub is_gone: bool,
    /// Whether it received everything up to the end.
    pub is_complete: bool,
}

/// The representation of objects in events (API-74, API-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Whole,
    Metadata,
    Table,
}

impl Representation {
    fn accept(self) -> &'static str {
        match self {
            Representation::Whole => "application/json",
            Representation::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
            Representation::Table => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }

    /// The object in an event, as far as the representation has it.
    fn object(self, shown: Value) -> Value {
        let kind = shown["kind"].as_str();
        match self {
            Representation::Whole => {
                assert!(
                    matches!(kind, Some("ConfigMap" | "Pod" | "Service")),
                    "{shown}"
                );
            }
            Representation::Metadata => assert_eq!(kind, Some("PartialObjectMetadata"), "{shown}"),
            Representation::Table => {
                assert_eq!(kind, Some("Table"), "{shown}");
                return shown["rows"][0]["object"].clone();
            }
        }
        shown
    }
}

/// Why a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It may be resumed.
    Over,
    /// History was compacted (410).
    Gone,
    /// It did not start.
    Refused,
}

/// A client that watches until the end.
pub struct WatchClient {
    pub common: Arc<Common>,
    pub random: Random,
    pub kind: Kind,
}

impl WatchClient {
    /// Watches until the end is known and reached.
    pub async fn run(mut self) -> Vec<Session> {
        let mut sessions = Vec::new();
        let mut is_last = false;
        while !is_last {
            is_last = self.common.until(self.kind) != 0;
            sessions.push(self.session().await);
        }
        sessions
    }

    async fn session(&mut self) -> Session {
        let mut session = Session {
            selection: Selection::any(self.kind, &mut self.random),
            representation: self.random.of(&[
                Representation::Whole,
                Representation::Whole,
                Representation::Metadata,
                Representation::Table,
            ]),
            start: Start::After(0),
            initial_end: None,
            received: Vec::new(),
            bookmarks: Vec::new(),
            at: None,
            watches: 0,
            is_gone: false,
            is_complete: false,
        };
        let first = self.first(&mut session);
        let client = self.client();
        let watches = 1 + self.random.below(8);
        let mut deadline = CatchUpDeadline::default();
        loop {
            let end = self.watch(&mut session, &client, &first).await;
            let until = self.common.until(self.kind);
            session.is_gone = end == End::Gone;
            // A watch can be resumed only after its initial state is complete.
            let is_stuck = session.at.is_none() && session.watches > 0;
            if session.is_gone || is_stuck {
                return session;
            }
            if until == 0 && session.watches >= watches {
                return session;
            }
            if until != 0 {
                let at = session.at.unwrap_or(0);
                session.is_complete = at >= until;
                if session.is_complete {
                    return session;
                }
                deadline.check(&format!("{:?}", session.selection), at, until);
            }
            self.away(end).await;
        }
    }

    /// Chooses the start, and returns the parameters of the first watch.
    fn first(&mut self, session: &mut Session) -> String {
        let newest = self.common.write_log.newest();
        // Zero would mean any state.
        let past = newest.saturating_sub(self.random.below(3_000)).max(1);
        let any = Start::State { at_least: 0 };
        let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                       &allowWatchBookmarks=true";
        let (start, parameters) = match self.random.below(10) {
            // WA-5: an unset version is as new as the store.
            0 => (Start::State { at_least: newest }, String::new()),
            1 => (any, "&resourceVersion=0".to_owned()),
            2 => (Start::State { at_least: newest }, initial.to_owned()),
            3 => (any, format!("{initial}&resourceVersion=0")),
            4 => {
                let at_least = Start::State { at_least: past };
                (at_least, format!("{initial}&resourceVersion={past}"))
            }
            5..8 => (Start::After(past), format!("&resourceVersion={past}")),
            _ => {
                let present = newest.max(1);
                (Start::After(present), format!("&resourceVersion={present}"))
            }
        };
        session.start = start;
        if let Start::After(version) = start {
            session.at = Some(version);
        }
        parameters
    }

    fn client(&mut self) -> Client {
        let protocol = match self.random.below(2) {
            0 => Protocol::Http1,
            _ => Protocol::Http2,
        };
        match self.random.below(3) {
            // A small window, so that a pause of the client soon blocks its watch.
            0 => self.common.target.narrow(16 << 10).client_over(protocol),
            _ => self.common.target.client_over(protocol),
        }
    }

    async fn away(&mut self, end: End) {
        let millis = match self.random.below(6) {
            _ if end == End::Refused => 20,
            0 => self.random.below(1_500),
            _ => self.random.below(20),
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// One watch, until it ends, breaks, or its client leaves.
    async fn watch(&mut self, session: &mut Session, client: &Client, first: &str) -> End {
        let (common, kind) = (self.common.clone(), self.kind);
        let timeout = Duration::from_secs(2 + self.random.below(6));
        let mut path = session.selection.path();
        path += &format!("&timeoutSeconds={}", timeout.as_secs());
        match session.at {
            Some(at) if session.watches > 0 => path += &format!("&resourceVersion={at}"),
            _ => path += first,
        }
        // At the end it needs bookmarks to learn its version.
        let is_ending = common.until(kind) != 0;
        if !path.contains("allowWatchBookmarks") && (is_ending || self.random.below(3) > 0) {
            path += "&allowWatchBookmarks=true";
        }
        let restarts = common.restarts.load(Ordering::SeqCst);
        let opened = Instant::now();
        let call = Call::get(&path).header("accept", session.representation.accept());
        let Ok(mut lines) = client.lines(call).await else {
            return End::Refused;
        };
        if matches!(lines.status.as_u16(), 429 | 503) {
            return End::Refused;
        }
        assert_eq!(lines.status, 200, "{path}");
        session.watches += 1;
        let stay = match self.random.below(3) {
            0 if !is_ending => self.random.below(3_000),
            _ => 60_000,
        };
        let leaves = tokio::time::Instant::now() + Duration::from_millis(stay);
        loop {
            let line = match tokio::time::timeout_at(leaves, lines.next()).await {
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None)) => {
                    // Only its timeout, a restart or compacted history may end a watch.
                    let is_in_time = opened.elapsed() >= timeout;
                    let undisturbed = restarts.is_multiple_of(2)
                        && common.restarts.load(Ordering::SeqCst) == restarts;
                    if undisturbed && !is_in_time {
                        self.check_compacted(session, "it ended silently");
                    }
                    return End::Over;
                }
                Ok(Err(_)) | Err(_) => return End::Over,
            };
            let (kind, shown) = event(&line);
            if kind == "ERROR" {
                return self.refused(session, &shown);
            }
            let object = session.representation.object(shown);
            match kind.as_str() {
                "BOOKMARK" => WatchClient::bookmark(session, &object),
                _ => WatchClient::seen(session, kind, &object),
            }
            let until = common.until(self.kind);
            if until != 0 && session.at.is_some_and(|at| at >= until) {
                return End::Over;
            }
            match self.random.below(300) {
                0 => return End::Over,
                1 | 2 => {
                    let pause = 50 + self.random.below(1_200);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                _ => {}
            }
        }
    }

    fn refused(&self, session: &mut Session, status: &Value) -> End {
        match status["code"].as_u64() {
            Some(410) => {
                assert_eq!(status["reason"], "Expired", "{status}");
                self.check_compacted(session, "410");
                End::Gone
            }
            // It did not start, or it was interrupted.
            Some(429 | 500 | 503 | 504) => {
                if session.received.is_empty() && session.bookmarks.is_empty() {
                    session.watches -= 1;
                }
                End::Refused
            }
            _ => panic!("{status}"),
        }
    }

    /// Checks that history was old enough to be compacted.
    fn check_compacted(&self, session: &Session, what: &str) {
        let Some(at) = session.at else {
            panic!("{what} in its initial state: {session:?}");
        };
        // The first event after that version was written after everything up to it.
        let young = self.common.write_log.last_request_up_to(at + 1);
        let is_old =
            young.is_none_or(|requested_at| requested_at.elapsed() >= self.common.retention);
        assert!(
            is_old,
            "{what} at {at}, though what follows is not {:?} old; {:?} {:?}",
            self.common.retention, session.start, session.selection
        );
    }

    fn bookmark(session: &mut Session, object: &Value) {
        let version = version(object);
        session.bookmarks.push((session.received.len(), version));
        if !object["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null() {
            assert_eq!(session.initial_end, None, "{object}");
            session.initial_end = Some(version);
        }
        assert!(
            Some(version) >= session.at,
            "back from {:?}: {object}",
            session.at
        );
        session.at = Some(version);
    }

    fn seen(session: &mut Session, kind: String, object: &Value) {
        let version = version(object);
        // An ADDED may belong to the initial state, which has no version to resume from (WA-11).
        if session.at.is_some() || kind != "ADDED" {
            assert!(
                Some(version) > session.at,
                "{kind} {version} {:?} again, or too late: {session:?}",
                read(object)
            );
            session.at = Some(version);
        }
        let (name, value) = read(object);
        session.received.push(WatchEvent {
            version,
            kind,
            name,
            value,
        });
    }
}
