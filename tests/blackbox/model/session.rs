//! Clients that watch a part of a collection in every way there is, and remember what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::things::{Kind, Selection, read};
use crate::harness::{Call, Client, Protocol, Target, version};
use crate::load::{Ledger, Patience, Random, Seen, event};

/// What all clients know of the daemon.
pub struct Common {
    pub target: Target,
    pub ledger: Arc<Ledger>,
    /// How long history is kept for certain.
    pub retention: Duration,
    /// Odd while the daemon is being restarted.
    pub restarts: AtomicU64,
    /// The version of the last write of each kind, 0 while nobody knows.
    pub until: [AtomicU64; 2],
}

impl Common {
    /// The version at which watches of a kind may stop, 0 while nobody knows.
    pub fn until(&self, kind: Kind) -> u64 {
        self.until[kind as usize].load(Ordering::SeqCst)
    }
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Behind this version.
    After(u64),
    /// With a state at least as new as this.
    State { at_least: u64 },
}

/// One stream, over as many watches as its client resumed it.
#[derive(Debug)]
pub struct Session {
    pub selection: Selection,
    pub form: Form,
    pub start: Start,
    /// The version of the bookmark that closed the initial state.
    pub initial_end: Option<u64>,
    pub heard: Vec<Seen>,
    /// Versions of bookmarks, with the number of events before each.
    pub bookmarks: Vec<(usize, u64)>,
    /// Where it would resume; `None` while that is not known.
    pub at: Option<u64>,
    pub watches: u64,
    /// It was told that what comes next is gone.
    pub is_gone: bool,
    /// Whether it saw everything up to the end.
    pub is_complete: bool,
}

/// What events are shown as (API-74, API-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    fn accept(self) -> &'static str {
        match self {
            Form::Whole => "application/json",
            Form::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Form::Table => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }

    /// The object that is shown, as far as it is.
    fn object(self, shown: Value) -> Value {
        let kind = shown["kind"].as_str();
        match self {
            Form::Whole => assert!(matches!(kind, Some("ConfigMap" | "Pod")), "{shown}"),
            Form::Metadata => assert_eq!(kind, Some("PartialObjectMetadata"), "{shown}"),
            Form::Table => {
                assert_eq!(kind, Some("Table"), "{shown}");
                return shown["rows"][0]["object"].clone();
            }
        }
        shown
    }
}

/// Why a watch is over.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It may be resumed.
    Over,
    /// What comes next was forgotten.
    Gone,
    /// It was not even begun.
    Refused,
}

/// A client.
pub struct Follower {
    pub common: Arc<Common>,
    pub random: Random,
    pub kind: Kind,
}

impl Follower {
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
            form: self
                .random
                .of(&[Form::Whole, Form::Whole, Form::Metadata, Form::Table]),
            start: Start::After(0),
            initial_end: None,
            heard: Vec::new(),
            bookmarks: Vec::new(),
            at: None,
            watches: 0,
            is_gone: false,
            is_complete: false,
        };
        let first = self.first(&mut session);
        let client = self.client();
        let watches = 1 + self.random.below(8);
        let mut patience = Patience::default();
        loop {
            let end = self.watch(&mut session, &client, &first).await;
            let until = self.common.until(self.kind);
            session.is_gone = end == End::Gone;
            // Nothing is there to be resumed before its initial state was seen to its end.
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
                patience.check(&format!("{:?}", session.selection), at, until);
            }
            self.away(end).await;
        }
    }

    /// Where it begins, as parameters of its first watch.
    fn first(&mut self, session: &mut Session) -> String {
        let told = self.common.ledger.newest();
        // Zero would mean any state.
        let past = told.saturating_sub(self.random.below(3_000)).max(1);
        let any = Start::State { at_least: 0 };
        let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                       &allowWatchBookmarks=true";
        let (start, parameters) = match self.random.below(10) {
            // WA-5: an unset version is as new as the store.
            0 => (Start::State { at_least: told }, String::new()),
            1 => (any, "&resourceVersion=0".to_owned()),
            2 => (Start::State { at_least: told }, initial.to_owned()),
            3 => (any, format!("{initial}&resourceVersion=0")),
            4 => {
                let at_least = Start::State { at_least: past };
                (at_least, format!("{initial}&resourceVersion={past}"))
            }
            5..8 => (Start::After(past), format!("&resourceVersion={past}")),
            _ => {
                let present = told.max(1);
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
            // So that a pause of this client is soon one of its watch.
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
        // In the end it has to be told where it stands.
        let is_ending = common.until(kind) != 0;
        if !path.contains("allowWatchBookmarks") && (is_ending || self.random.below(3) > 0) {
            path += "&allowWatchBookmarks=true";
        }
        let restarts = common.restarts.load(Ordering::SeqCst);
        let opened = Instant::now();
        let call = Call::get(&path).header("accept", session.form.accept());
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
                    // Nothing but its time, a restart, and forgotten history end a watch.
                    let is_in_time = opened.elapsed() >= timeout;
                    let undisturbed = restarts.is_multiple_of(2)
                        && common.restarts.load(Ordering::SeqCst) == restarts;
                    if undisturbed && !is_in_time {
                        self.check_forgotten(session, "it ended silently");
                    }
                    return End::Over;
                }
                Ok(Err(_)) | Err(_) => return End::Over,
            };
            let (kind, shown) = event(&line);
            if kind == "ERROR" {
                return self.refused(session, &shown);
            }
            let object = session.form.object(shown);
            match kind.as_str() {
                "BOOKMARK" => Follower::bookmark(session, &object),
                _ => Follower::seen(session, kind, &object),
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
                self.check_forgotten(session, "410");
                End::Gone
            }
            // Nothing was begun, or it broke off.
            Some(429 | 500 | 503 | 504) => {
                if session.heard.is_empty() && session.bookmarks.is_empty() {
                    session.watches -= 1;
                }
                End::Refused
            }
            _ => panic!("{status}"),
        }
    }

    /// History may be forgotten only once it is old enough.
    fn check_forgotten(&self, session: &Session, what: &str) {
        let Some(at) = session.at else {
            panic!("{what} in its initial state: {session:?}");
        };
        // What came first after that version was written later than everything up to it.
        let young = self.common.ledger.asked_up_to(at + 1);
        let is_old = young.is_none_or(|asked| asked.elapsed() >= self.common.retention);
        assert!(
            is_old,
            "{what} at {at}, though what follows is not {:?} old; {:?} {:?}",
            self.common.retention, session.start, session.selection
        );
    }

    fn bookmark(session: &mut Session, object: &Value) {
        let version = version(object);
        session.bookmarks.push((session.heard.len(), version));
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
        // An ADDED may be of the initial state, of which no version is one to resume at (WA-11).
        if session.at.is_some() || kind != "ADDED" {
            assert!(
                Some(version) > session.at,
                "{kind} {version} {:?} again, or too late: {session:?}",
                read(object)
            );
            session.at = Some(version);
        }
        let (name, value) = read(object);
        session.heard.push(Seen {
            version,
            kind,
            name,
            value,
        });
    }
}
