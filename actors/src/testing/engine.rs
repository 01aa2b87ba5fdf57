//! An engine in memory: one list of events, no locks worth mentioning, and switches to break it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::engine::{
    At, Change, DataEngine, Engine, EngineError, EngineStats, Event, EventKind, Expect, Expiry,
    Feed, FeedItem, GetResponse, Health, HistoryChunk, HistoryRequest, Key, KeyValue, Lease,
    LeaseEngine, LeaseId, Maintenance, MaintenanceEngine, Mutation, Origin, Outcome, Position,
    Prefix, RangeRequest, RangeResponse, Retention, Revision,
};

/// See the module's documentation.
pub struct FakeEngine {
    log: Mutex<Log>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    /// What the events leave.
    live: BTreeMap<Key, KeyValue>,
    compacted: Revision,
    /// All reads and open feeds fail with this.
    down: Option<EngineError>,
    /// How long a grant takes, one that fails too.
    grants_take: Duration,
    /// Feeds opened before the newest of these are broken.
    feeds_broken: u64,
    /// Every event older than this has been removed, by whom asked to maintain.
    maintained: u64,
    /// While space is given back so many events come in at every step, and it goes on for ever.
    events_per_reclaim: u64,
    history_reads: u64,
    /// The times to live of the leases granted, in order; the number of each is its place, from 1.
    granted: Vec<Duration>,
    /// What the next steps of expiry do; after the last one there is nothing to do.
    expiries: VecDeque<Expiry>,
    /// Steps of expiry that were asked for.
    expiry_steps: u64,
}

impl FakeEngine {
    pub fn new() -> Arc<FakeEngine> {
        Arc::new(FakeEngine {
            log: Mutex::default(),
            newest: watch::Sender::new(0),
        })
    }

    pub fn put(&self, key: &Key, value: &str) -> Revision {
        let value = Bytes::from(value.to_owned());
        self.append(key, EventKind::Put, value)
    }

    pub fn delete(&self, key: &Key) -> Revision {
        self.append(key, EventKind::Delete, Bytes::new())
    }

    /// Breaks the open feeds once.
    pub fn break_feeds(&self) {
        self.log.lock().feeds_broken += 1;
        self.newest.send_modify(|_| ());
    }

    pub fn set_down(&self, error: Option<EngineError>) {
        self.log.lock().down = error;
        self.newest.send_modify(|_| ());
    }

    pub fn forget_up_to(&self, revision: Revision) {
        self.log.lock().compacted = revision;
    }

    pub fn write_while_reclaiming(&self, events: u64) {
        self.log.lock().events_per_reclaim = events;
    }

    /// Lets every grant take so long, failed ones too.
    pub fn set_grants_take(&self, time: Duration) {
        self.log.lock().grants_take = time;
    }

    /// The times to live of the leases granted so far.
    pub fn granted(&self) -> Vec<Duration> {
        self.log.lock().granted.clone()
    }

    /// Lets a further step of expiry come to this.
    pub fn expire_next(&self, expiry: Expiry) {
        self.log.lock().expiries.push_back(expiry);
    }

    pub fn expiry_steps(&self) -> u64 {
        self.log.lock().expiry_steps
    }

    pub fn history_reads(&self) -> u64 {
        self.log.lock().history_reads
    }

    pub fn exists(&self, key: &Key) -> bool {
        self.log.lock().live.contains_key(key)
    }

    pub fn records_removed(&self) -> u64 {
        self.log.lock().maintained
    }

    pub fn revision(&self) -> Revision {
        self.log.lock().newest()
    }

    pub fn range_now(&self, request: &RangeRequest) -> Result<RangeResponse, EngineError> {
        self.log.lock().range(request)
    }

    pub fn events_after(&self, revision: Revision) -> Vec<Event> {
        let log = self.log.lock();
        let seen = log
            .events
            .partition_point(|event| event.revision <= revision);
        log.events[seen..].to_vec()
    }

    fn append(&self, key: &Key, kind: EventKind, value: Bytes) -> Revision {
        let mut log = self.log.lock();
        let revision = log.newest().next();
        let before = log.live.remove(key);
        let version = match kind {
            EventKind::Put => before.as_ref().map_or(0, |item| item.version) + 1,
            EventKind::Delete => 0,
        };
        let event = Event {
            revision,
            key: key.clone(),
            kind,
            value,
            create_revision: before
                .as_ref()
                .map_or(revision, |item| item.create_revision),
            prev_revision: before.as_ref().map_or(Revision::ZERO, |item| item.revision),
            version,
            lease: LeaseId::default(),
            time: SystemTime::now(),
            origin: Origin::default(),
            previous: before.map(|item| item.value),
        };
        if kind == EventKind::Put {
            log.live.insert(key.clone(), event.key_value());
        }
        log.events.push(event);
        drop(log);
        self.newest.send_replace(revision.0);
        revision
    }
}

impl Log {
    fn newest(&self) -> Revision {
        self.events
            .last()
            .map_or(Revision::ZERO, |last| last.revision)
    }

    fn check(&self, at: At) -> Result<Revision, EngineError> {
        if let Some(error) = &self.down {
            return Err(error.clone());
        }
        match at {
            At::Latest => Ok(self.newest()),
            At::Revision(at) if at < self.compacted => Err(EngineError::Compacted {
                requested: at,
                compacted: self.compacted,
            }),
            At::Revision(at) => Ok(at),
        }
    }

    fn state_at(&self, at: Revision) -> BTreeMap<Key, KeyValue> {
        let mut state = BTreeMap::new();
        for event in self.events.iter().take_while(|event| event.revision <= at) {
            match event.kind {
                EventKind::Delete => state.remove(&event.key),
                EventKind::Put => state.insert(event.key.clone(), event.key_value()),
            };
        }
        state
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResponse, EngineError> {
        let at = self.check(request.at)?;
        let start = request.start.clone().unwrap_or_default();
        let mut items: Vec<KeyValue> = self.state_at(at).into_values().collect();
        items.retain(|item| request.prefix.covers(&item.key) && item.key.as_bytes() >= &start[..]);
        let count = items.len() as u64;
        let limit = if request.limit == 0 {
            items.len()
        } else {
            request.limit
        };
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(RangeResponse {
            revision: self.newest(),
            items,
            more,
            count,
        })
    }

    fn history(&mut self, request: &HistoryRequest) -> Result<HistoryChunk, EngineError> {
        self.history_reads += 1;
        self.check(At::Revision(request.after))?;
        let mut chunk = HistoryChunk {
            events: Vec::new(),
            reached: request.until,
        };
        let mut bytes = 0;
        for event in &self.events {
            let is_wanted = event.revision > request.after && event.revision <= request.until;
            if !is_wanted || !request.prefix.covers(&event.key) {
                continue;
            }
            if bytes >= request.bytes_max && !chunk.events.is_empty() {
                chunk.reached = chunk.events[chunk.events.len() - 1].revision;
                break;
            }
            bytes += event.value.len();
            chunk.events.push(event.clone());
        }
        Ok(chunk)
    }
}

struct FakeFeed {
    engine: Arc<FakeEngine>,
    newest: watch::Receiver<u64>,
    prefix: Prefix,
    after: Revision,
    opened_at: u64,
}

impl FakeFeed {
    /// What there is to deliver now, if anything.
    fn take(&mut self) -> Option<Result<FeedItem, EngineError>> {
        let log = self.engine.log.lock();
        if log.feeds_broken > self.opened_at {
            return Some(Err(EngineError::Unavailable("the feed broke".to_owned())));
        }
        if let Err(error) = log.check(At::Latest) {
            return Some(Err(error));
        }
        let newest = log.newest();
        if newest <= self.after {
            return None;
        }
        let wanted = |event: &&Event| event.revision > self.after && self.prefix.covers(&event.key);
        let events: Vec<Event> = log.events.iter().filter(wanted).cloned().collect();
        self.after = newest;
        if events.is_empty() {
            return Some(Ok(FeedItem::Progress(newest)));
        }
        Some(Ok(FeedItem::Events(events.into())))
    }
}

impl Feed for FakeFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            loop {
                self.newest.mark_unchanged();
                if let Some(item) = self.take() {
                    return item;
                }
                let _ = self.newest.changed().await;
            }
        }
        .boxed()
    }
}

/// The engine as the actors hold it: feeds need a way back to it.
pub struct Shared(pub Arc<FakeEngine>);

impl FakeEngine {
    pub fn shared(self: &Arc<FakeEngine>) -> Arc<dyn Engine> {
        Arc::new(Shared(Arc::clone(self)))
    }
}

impl DataEngine for Shared {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        let log = self.0.log.lock();
        let answer = log.check(at).map(|at| GetResponse {
            revision: log.newest(),
            item: log.state_at(at).remove(&key),
        });
        ready(answer).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        ready(self.0.log.lock().range(&request)).boxed()
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        let newest = self.0.revision();
        let current = self.0.log.lock().state_at(newest).remove(&mutation.key);
        let holds = match mutation.expect {
            Expect::Absent => current.is_none(),
            Expect::Unchanged(revision) => current
                .as_ref()
                .is_some_and(|item| item.revision == revision),
        };
        let outcome = if holds {
            match &mutation.change {
                Change::Put { value, .. } => {
                    self.0.append(&mutation.key, EventKind::Put, value.clone())
                }
                Change::Delete => self.0.delete(&mutation.key),
            };
            let log = self.0.log.lock();
            Outcome::Committed(log.events[log.events.len() - 1].clone())
        } else {
            Outcome::Refused {
                current,
                revision: newest,
            }
        };
        ready(Ok(outcome)).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let log = self.0.log.lock();
        let feed: Box<dyn Feed> = Box::new(FakeFeed {
            engine: Arc::clone(&self.0),
            newest: self.0.newest.subscribe(),
            prefix,
            after,
            opened_at: log.feeds_broken,
        });
        ready(log.check(At::Revision(after)).map(|_| feed)).boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        async move {
            // As a real engine does, let others run before the answer.
            tokio::task::yield_now().await;
            self.0.log.lock().history(&request)
        }
        .boxed()
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        ready(Ok(self.known(prefix))).boxed()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        let log = self.0.log.lock();
        let mut of_prefix = log
            .events
            .iter()
            .rev()
            .filter(|event| prefix.covers(&event.key));
        Position {
            revision: log.newest(),
            prefix_revision: of_prefix
                .next()
                .map_or(Revision::ZERO, |event| event.revision),
        }
    }

    fn compacted(&self) -> Revision {
        self.0.log.lock().compacted
    }

    fn health(&self) -> Health {
        Health::Serving
    }
}

impl LeaseEngine for Shared {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        async move {
            // As a real engine does, let others run before the answer.
            tokio::task::yield_now().await;
            let takes = self.0.log.lock().grants_take;
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            let mut log = self.0.log.lock();
            log.check(At::Latest)?;
            log.granted.push(ttl);
            let id = LeaseId(log.granted.len() as u64);
            Ok(Lease { id, ttl })
        }
        .boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        ready(Err(EngineError::LeaseNotFound(lease))).boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        let mut log = self.0.log.lock();
        log.expiry_steps += 1;
        let check = log.check(At::Latest);
        ready(check.map(|_| log.expiries.pop_front().unwrap_or_default())).boxed()
    }
}

impl MaintenanceEngine for Shared {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        let log = self.0.log.lock();
        if let Err(error) = log.check(At::Latest) {
            return ready(Err(error)).boxed();
        }
        let old = log.events.iter().rev().find(|event| {
            now.duration_since(event.time).unwrap_or(Duration::ZERO) >= retention.age
        });
        ready(Ok(old.map_or(Revision::ZERO, |event| event.revision))).boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        let mut log = self.0.log.lock();
        log.compacted = log.compacted.max(up_to);
        ready(Ok(())).boxed()
    }

    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        let events = self.0.log.lock().events_per_reclaim;
        if reclaim && events > 0 {
            for _ in 0..events {
                self.0.put(&crate::testing::key("ns/busy"), "red");
            }
            return ready(Ok(Maintenance {
                more: true,
                ..Maintenance::default()
            }))
            .boxed();
        }
        let mut log = self.0.log.lock();
        let removed = u64::from(log.maintained < log.compacted.0);
        log.maintained += removed;
        ready(Ok(Maintenance {
            removed,
            reclaimed_bytes: u64::from(reclaim),
            more: log.maintained < log.compacted.0,
        }))
        .boxed()
    }

    fn stats(&self) -> EngineStats {
        let log = self.0.log.lock();
        EngineStats {
            revision: log.newest(),
            compacted: log.compacted,
            ..EngineStats::default()
        }
    }
}

impl Engine for Shared {
    fn close(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}
