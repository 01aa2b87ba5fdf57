//! The scripts of the golden stores, and the histories that they make.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    Change, Engine, Event, EventKind, Expect, Key, KeyValue, LeaseId, Mutation, Origin, Outcome,
    Prefix, Prepared, Revision,
};
use bytes::Bytes;
use taffrail::storage::embedded::EmbeddedOptions;

/// One step of a script.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    Put {
        key: &'static [u8],
        value: Bytes,
        lease: u64,
        user: &'static str,
    },
    Delete(&'static [u8]),
    /// Grants a lease of this many seconds. Leases are numbered from 1.
    Grant(u64),
    /// Revokes a lease. This is its only key.
    Revoke(u64, &'static [u8]),
    Expire(u64, &'static [u8]),
    Compact(u64),
    /// Removes all that was compacted.
    Scrub,
}

/// Keys of Kubernetes' shape, and one of arbitrary bytes.
pub const A: &[u8] = b"/registry/configmaps/default/a";
pub const B: &[u8] = b"/registry/leases/default/b";
pub const C: &[u8] = b"/registry/secrets/default/c";
pub const D: &[u8] = b"/registry/\x00\xff\xfe";

fn put(key: &'static [u8], value: impl Into<Bytes>) -> ScriptStep {
    ScriptStep::Put {
        key,
        value: value.into(),
        lease: 0,
        user: "",
    }
}

/// The script of the golden stores of format 1, whose leases nobody granted. Never change it. Write
/// another one.
pub fn first() -> Vec<ScriptStep> {
    let text = |count: usize| Bytes::from("taffrail ".repeat(count));
    vec![
        put(A, "one"),
        ScriptStep::Put {
            key: B,
            value: Bytes::from_static(b"held"),
            lease: 7,
            user: "system:node:ship",
        },
        put(A, "two"),
        ScriptStep::Delete(B),
        // Larger than a page.
        put(C, text(1000)),
        ScriptStep::Compact(4),
        ScriptStep::Scrub,
        put(A, text(3)),
        // A key that was deleted begins anew.
        put(B, Bytes::new()),
        ScriptStep::Put {
            key: B,
            value: Bytes::from_static(&[0, 1, 0xff]),
            lease: u64::MAX,
            user: "admin",
        },
        ScriptStep::Delete(C),
        put(A, "four"),
        put(D, "bytes"),
        // Compacted and not removed yet.
        ScriptStep::Compact(7),
    ]
}

/// The script of the golden stores of format 2.
pub fn second() -> Vec<ScriptStep> {
    let text = |count: usize| Bytes::from("taffrail ".repeat(count));
    let leased = |key, value: &'static [u8], lease| ScriptStep::Put {
        key,
        value: Bytes::from_static(value),
        lease,
        user: "system:node:ship",
    };
    vec![
        put(A, "one"),
        ScriptStep::Grant(3600),
        ScriptStep::Grant(4),
        leased(B, b"held", 1),
        leased(A, b"two", 2),
        ScriptStep::Delete(B),
        // Larger than a page.
        put(C, text(1000)),
        ScriptStep::Compact(4),
        ScriptStep::Scrub,
        put(A, text(3)),
        // A key that was deleted begins anew.
        put(B, Bytes::new()),
        ScriptStep::Grant(2),
        leased(B, &[0, 1, 0xff], 3),
        ScriptStep::Expire(3, B),
        put(A, "four"),
        leased(D, b"bytes", 1),
        ScriptStep::Grant(3600),
        leased(B, b"again", 4),
        ScriptStep::Revoke(4, B),
        // Compacted and not removed yet.
        ScriptStep::Compact(7),
    ]
}

/// A random next step.
pub fn any(dice: &mut Dice, history: &ExpectedHistory) -> ScriptStep {
    let key = [A, B, C, D][dice.roll(4) as usize];
    let exists = history
        .state_at(history.revision())
        .iter()
        .any(|item| item.key == Key::new(key));
    match dice.roll(10) {
        0 => {
            let more = history.revision().0 - history.compacted.0;
            ScriptStep::Compact(history.compacted.0 + dice.roll(more + 1))
        }
        1 => ScriptStep::Scrub,
        2..=4 if exists => ScriptStep::Delete(key),
        _ => put(key, format!("{}", dice.roll(1 << 40))),
    }
}

/// The time of the first event, in seconds since 1970. Each further event is a second and a
/// nanosecond later.
const BEGIN: u64 = 1_700_000_000;

fn time_of(revision: u64) -> SystemTime {
    let since = Duration::from_secs(BEGIN + revision) + Duration::from_nanos(revision);
    SystemTime::UNIX_EPOCH + since
}

/// The history that a script makes.
pub struct ExpectedHistory {
    /// All events, by revision.
    pub events: BTreeMap<Revision, Event>,
    pub compacted: Revision,
    pub scrubbed: Revision,
}

impl ExpectedHistory {
    pub fn revision(&self) -> Revision {
        let last = self.events.last_key_value();
        last.map_or(Revision::ZERO, |(revision, _)| *revision)
    }

    /// The state at a revision, in the order of keys.
    pub fn state_at(&self, at: Revision) -> Vec<KeyValue> {
        let mut state: BTreeMap<Key, KeyValue> = BTreeMap::new();
        for event in self.events.range(..=at).map(|(_, event)| event) {
            match event.kind {
                EventKind::Put => state.insert(event.key.clone(), event.key_value()),
                EventKind::Delete => state.remove(&event.key),
            };
        }
        state.into_values().collect()
    }

    /// The revisions whose records must still exist.
    pub fn retained(&self) -> Vec<Revision> {
        let gone = |revision: Revision| {
            let superseded_by = self
                .events
                .values()
                .find(|event| event.prev_revision == revision)
                .map(|event| event.revision);
            let deletion = self.events[&revision].kind == EventKind::Delete;
            superseded_by.is_some_and(|by| by <= self.scrubbed)
                || (deletion && revision <= self.scrubbed)
        };
        let all = self.events.keys().copied();
        all.filter(|revision| !gone(*revision)).collect()
    }
}

/// The history that a script makes, computed without an engine.
pub fn expected_history(steps: &[ScriptStep]) -> ExpectedHistory {
    let mut history = ExpectedHistory {
        events: BTreeMap::new(),
        compacted: Revision::ZERO,
        scrubbed: Revision::ZERO,
    };
    for step in steps {
        let (key, kind, value, lease, user) = match step.clone() {
            ScriptStep::Compact(up_to) => {
                history.compacted = Revision(up_to);
                continue;
            }
            ScriptStep::Scrub => {
                history.scrubbed = history.compacted;
                continue;
            }
            ScriptStep::Grant(_) => continue,
            ScriptStep::Put {
                key,
                value,
                lease,
                user,
            } => (key, EventKind::Put, value, lease, user),
            ScriptStep::Delete(key) => (key, EventKind::Delete, Bytes::new(), 0, ""),
            ScriptStep::Revoke(lease, key) | ScriptStep::Expire(lease, key) => {
                (key, EventKind::Delete, Bytes::new(), lease, LEASES)
            }
        };
        let revision = history.revision().next();
        let key = Key::new(key);
        let mut current = history.state_at(revision);
        current.retain(|item| item.key == key);
        let before = current.pop();
        let version = before.as_ref().map_or(0, |item| item.version) + 1;
        let event = Event {
            revision,
            kind,
            value,
            create_revision: before
                .as_ref()
                .map_or(revision, |item| item.create_revision),
            prev_revision: before.as_ref().map_or(Revision::ZERO, |item| item.revision),
            version: if kind == EventKind::Put { version } else { 0 },
            lease: LeaseId(lease),
            time: time_of(revision.0),
            origin: origin(user),
            previous: before.map(|item| item.value),
            key,
            prepared: Prepared::default(),
        };
        history.events.insert(revision, event);
    }
    history
}

/// The user that deletes expired keys.
const LEASES: &str = "system:taffrail:leases";

fn origin(user: &str) -> Origin {
    if matches!(user, "" | LEASES) {
        return Origin {
            user: user.into(),
            ..Origin::default()
        };
    }
    Origin {
        user: user.into(),
        manager: "kubectl".into(),
        audit_id: "9e107d9d-3721-4d2c-8a1b-1c2d3e4f5a6b".into(),
    }
}

/// A clock that the script moves.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> SystemTime {
        time_of(self.0.load(Ordering::SeqCst))
    }

    /// Options of an engine that uses this clock.
    pub fn options(&self, directory: &std::path::Path) -> EmbeddedOptions {
        let clock = self.clone();
        let mut options = EmbeddedOptions::new(directory);
        options.ballast_bytes = 0;
        options.reserve_bytes = 0;
        let uptime = self.clone();
        options.clock = Arc::new(move || clock.now());
        options.uptime = Arc::new(move || uptime.now().duration_since(time_of(0)).unwrap());
        options
    }
}

/// Runs a script on an engine that uses this clock.
pub async fn run_script(engine: &dyn Engine, clock: &Clock, steps: &[ScriptStep]) {
    run_script_from(engine, clock, steps, 0).await;
}

/// Continues a script after the first `from` steps.
pub async fn run_script_from(
    engine: &dyn Engine,
    clock: &Clock,
    steps: &[ScriptStep],
    from: usize,
) {
    let (history, before) = (
        expected_history(steps),
        expected_history(&steps[..from]).revision(),
    );
    let mut events = history
        .events
        .range(before.next()..)
        .map(|(_, event)| event);
    for step in &steps[from..] {
        match step {
            ScriptStep::Compact(up_to) => engine.compact(Revision(*up_to)).await.unwrap(),
            ScriptStep::Scrub => while engine.maintain(false).await.unwrap().more {},
            ScriptStep::Grant(seconds) => {
                engine.grant(Duration::from_secs(*seconds)).await.unwrap();
            }
            event => {
                let expected = events.next().unwrap();
                clock.0.store(expected.revision.0, Ordering::SeqCst);
                match event {
                    ScriptStep::Revoke(lease, _) => engine.revoke(LeaseId(*lease)).await.unwrap(),
                    ScriptStep::Expire(..) => while engine.expire().await.unwrap().more {},
                    _ => commit(engine, expected).await,
                }
                let newest = engine.known(&Prefix::new(b"")).revision;
                assert_eq!(newest, expected.revision);
            }
        }
    }
}

async fn commit(engine: &dyn Engine, event: &Event) {
    let mutation = Mutation {
        key: event.key.clone(),
        expect: match event.prev_revision {
            Revision::ZERO => Expect::Absent,
            revision => Expect::Unchanged(revision),
        },
        change: match event.kind {
            EventKind::Put => Change::Put {
                value: event.value.clone(),
                lease: event.lease,
            },
            EventKind::Delete => Change::Delete,
        },
        origin: event.origin.clone(),
        prepared: Prepared::default(),
    };
    let outcome = engine.commit(mutation).await.unwrap();
    let Outcome::Committed(written) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(written.revision, event.revision);
}

/// Pseudorandom small numbers, repeatable by their seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).max(1))
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}
