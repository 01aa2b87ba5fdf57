//! The engines under test, and helpers for the checks.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, Change, DataEngine, Engine, Event, EventKind, Expect, Feed, FeedItem, Key, KeyValue,
    LeaseId, MemoryEngine, Mutation, Origin, Outcome, Prefix, Prepared, RangeRequest,
    RangeResponse, Revision,
};
use bytes::Bytes;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};

use crate::servers::etcd;

/// The time limit after which a check fails instead of hanging.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The duration of leases in checks: the minimum of all engines.
pub const TTL: Duration = Duration::from_secs(2);

/// A clock that tests set.
#[derive(Clone)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn new() -> Clock {
        Clock(Arc::new(AtomicU64::new(1_000_000)))
    }

    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    pub fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The same as the time that a process has been up.
    pub fn uptime(&self) -> Arc<dyn Fn() -> Duration + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || Duration::from_secs(clock.0.load(Ordering::SeqCst)))
    }

    pub fn function(&self) -> Arc<dyn Fn() -> SystemTime + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// An engine under test. Checks use only keys below `root`, so that engines can share a server.
pub struct Subject {
    pub engine: Arc<dyn Engine>,
    pub clock: Clock,
    root: String,
    _keep: Box<dyn Any + Send + Sync>,
}

pub fn memory() -> Subject {
    let clock = Clock::new();
    Subject {
        engine: MemoryEngine::with_clock(clock.function()),
        clock,
        root: "/registry/".to_owned(),
        _keep: Box::new(()),
    }
}

pub fn embedded() -> Subject {
    let clock = Clock::new();
    let directory = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(directory.path());
    options.clock = clock.function();
    options.uptime = clock.uptime();
    // Small, so that the checks meet the bounds.
    options.tail_bytes_max = 64 * 1024;
    options.range_bytes_max = 64 * 1024;
    Subject {
        engine: EmbeddedEngine::open(options).unwrap(),
        clock,
        root: "/registry/".to_owned(),
        _keep: Box::new(directory),
    }
}

/// An engine over an etcd of its own, of this version; `None` where there is said to be none.
pub async fn etcd(version: &'static str) -> Option<Subject> {
    etcd::find(version)?;
    let started = tokio::task::spawn_blocking(move || etcd::Cluster::single(version));
    let cluster = started.await.unwrap();
    let options = EtcdOptions::new(cluster.urls());
    let engine = EtcdEngine::open(options).unwrap();
    // Its health and its version are known after a moment.
    let knows = async {
        while engine.health() != actors::engine::Health::Serving {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, knows).await.unwrap();
    Some(Subject {
        engine,
        clock: Clock::new(),
        root: "/registry/".to_owned(),
        _keep: Box::new(cluster),
    })
}

impl Subject {
    pub fn key(&self, name: &str) -> Key {
        Key::new(format!("{}{name}", self.root))
    }

    pub fn prefix(&self, name: &str) -> Prefix {
        Prefix::new(format!("{}{name}", self.root))
    }

    pub async fn commit(&self, name: &str, expect: Expect, change: Change) -> Outcome {
        self.engine
            .commit(mutation(self.key(name), expect, change))
            .await
            .unwrap()
    }

    /// A lease, and how long it lives at least.
    pub async fn lease(&self) -> LeaseId {
        self.engine.grant(TTL).await.unwrap().id
    }

    /// Puts a value attached to a lease, whatever was there before.
    pub async fn attach(&self, name: &str, lease: LeaseId) -> Event {
        let expect = match self.get(name).await {
            Some(current) => Expect::Unchanged(current.revision),
            None => Expect::Absent,
        };
        committed(self.commit(name, expect, leased("x", lease)).await)
    }

    /// Lets the granted leases expire.
    pub fn outlive_leases(&self) {
        self.clock.pass(TTL.as_secs());
    }

    /// Runs the engine's expiry until nothing is due, and returns the number of deleted keys.
    pub async fn expire(&self) -> u64 {
        let mut expired = 0;
        loop {
            let step = self.engine.expire().await.unwrap();
            expired += step.expired;
            if !step.more {
                return expired;
            }
        }
    }

    /// Waits until nothing can be attached to a lease any more.
    pub async fn ended(&self, lease: LeaseId) {
        let ended = async {
            let probe = || mutation(self.key("probe"), Expect::Absent, leased("x", lease));
            while let Ok(outcome) = self.engine.commit(probe()).await {
                let probe = committed(outcome);
                self.delete("probe", probe.revision).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = tokio::time::timeout(TIMEOUT, ended).await;
        assert!(ended.is_ok(), "{lease:?} does not end");
    }

    /// Waits until a key is gone.
    pub async fn gone(&self, name: &str) {
        let gone = async {
            while self.get(name).await.is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let gone = tokio::time::timeout(TIMEOUT, gone).await;
        assert!(gone.is_ok(), "{name} outlived its lease");
    }

    pub async fn create(&self, name: &str, value: &str) -> Event {
        committed(self.commit(name, Expect::Absent, put(value)).await)
    }

    pub async fn update(&self, name: &str, from: Revision, value: &str) -> Event {
        committed(self.commit(name, Expect::Unchanged(from), put(value)).await)
    }

    pub async fn delete(&self, name: &str, from: Revision) -> Event {
        committed(
            self.commit(name, Expect::Unchanged(from), Change::Delete)
                .await,
        )
    }

    /// Puts whatever was there before.
    pub async fn set(&self, name: &str, value: &str) -> Event {
        match self.get(name).await {
            Some(current) => self.update(name, current.revision, value).await,
            None => self.create(name, value).await,
        }
    }

    pub async fn get(&self, name: &str) -> Option<KeyValue> {
        self.engine
            .get(self.key(name), At::Latest)
            .await
            .unwrap()
            .item
    }

    pub async fn get_at(&self, name: &str, at: Revision) -> Option<KeyValue> {
        self.engine
            .get(self.key(name), At::Revision(at))
            .await
            .unwrap()
            .item
    }

    pub fn range_request(&self, prefix: &str, at: At, limit: usize) -> RangeRequest {
        RangeRequest {
            prefix: self.prefix(prefix),
            start: None,
            at,
            limit,
            count_only: false,
        }
    }

    /// A whole range, in as many parts as the engine likes.
    pub async fn range(&self, prefix: &str, at: At) -> (Revision, Vec<KeyValue>) {
        let mut request = self.range_request(prefix, at, 0);
        let mut items: Vec<KeyValue> = Vec::new();
        let mut first: Option<RangeResponse> = None;
        loop {
            let part = self.engine.range(request.clone()).await.unwrap();
            assert_eq!(part.more, part.count > part.items.len() as u64);
            assert!(
                !part.more || !part.items.is_empty(),
                "a part without progress"
            );
            let more = part.more;
            items.extend(part.items.iter().cloned());
            let whole = first.get_or_insert(part);
            if !more {
                assert_eq!(
                    whole.count,
                    items.len() as u64,
                    "the first part counts them all"
                );
                let revision = match at {
                    At::Latest => whole.revision,
                    At::Revision(revision) => revision,
                };
                return (revision, items);
            }
            request.at = match at {
                At::Latest => At::Revision(whole.revision),
                at => at,
            };
            request.start = items.last().map(after_key);
        }
    }

    pub async fn feed(&self, prefix: &str, after: Revision) -> Box<dyn Feed> {
        self.engine.feed(self.prefix(prefix), after).await.unwrap()
    }

    /// Runs maintenance to its end, and returns the number of removed records.
    pub async fn maintain(&self) -> u64 {
        let mut removed = 0;
        loop {
            let step = self.engine.maintain(false).await.unwrap();
            removed += step.removed;
            if !step.more {
                return removed;
            }
        }
    }
}

/// What comes right after a key.
pub fn after_key(item: &KeyValue) -> Vec<u8> {
    let mut start = item.key.as_bytes().to_vec();
    start.push(0);
    start
}

pub fn mutation(key: Key, expect: Expect, change: Change) -> Mutation {
    Mutation {
        key,
        expect,
        change,
        origin: Origin::default(),
        prepared: Prepared::default(),
    }
}

pub fn put(value: &str) -> Change {
    leased(value, LeaseId(0))
}

pub fn leased(value: &str, lease: LeaseId) -> Change {
    Change::Put {
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease,
    }
}

#[track_caller]
pub fn committed(outcome: Outcome) -> Event {
    match outcome {
        Outcome::Committed(event) => event,
        Outcome::Refused { .. } => panic!("refused: {outcome:?}"),
    }
}

#[track_caller]
pub fn refused(outcome: Outcome) -> (Option<KeyValue>, Revision) {
    match outcome {
        Outcome::Refused { current, revision } => (current, revision),
        Outcome::Committed(_) => panic!("committed: {outcome:?}"),
    }
}

/// The next events of a feed, at least this many.
pub async fn take(feed: &mut dyn Feed, at_least: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < at_least {
        let item = tokio::time::timeout(TIMEOUT, feed.next()).await;
        match item.expect("the feed fell silent").unwrap() {
            FeedItem::Events(batch) => events.extend(batch.iter().cloned()),
            reset @ FeedItem::Reset { .. } => panic!("{reset:?}"),
            FeedItem::Progress(_) => {}
        }
    }
    events
}

/// Whether a feed stays silent for a moment.
pub async fn is_silent(feed: &mut dyn Feed) -> bool {
    let deadline = tokio::time::Instant::now() + Duration::from_millis(50);
    loop {
        match tokio::time::timeout_at(deadline, feed.next()).await {
            Err(_) => return true,
            Ok(Ok(reset @ FeedItem::Reset { .. })) => panic!("{reset:?}"),
            Ok(Ok(FeedItem::Progress(_))) => {}
            Ok(_) => return false,
        }
    }
}

/// What every engine tells of an event in the same way, whoever is asked: without who and when,
/// which are kept by engines with a log of their own, and without the value before, which comes
/// along where it was at hand.
pub fn told(events: &[Event]) -> Vec<Event> {
    let told = events.iter().map(|event| Event {
        time: SystemTime::UNIX_EPOCH,
        origin: Origin::default(),
        previous: None,
        ..event.clone()
    });
    told.collect()
}

/// Revisions and what happened, to compare at a glance.
pub fn outline(events: &[Event]) -> Vec<(u64, EventKind, String)> {
    let row = |event: &Event| {
        let name = event
            .key
            .to_text()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        (event.revision.0, event.kind, name)
    };
    events.iter().map(row).collect()
}

/// Small pseudorandom numbers, which repeat with the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.max(1))
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}
