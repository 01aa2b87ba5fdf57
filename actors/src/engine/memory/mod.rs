//! An engine that keeps everything in memory, for tests and for `--storage-backend=memory`. It is
//! the simplest implementation of an engine.
//!
//! It owns the log ([`log`]) and its leases ([`leases`]); this file locks them, and publishes what
//! they append to positions and feeds. It knows nothing of files, and nothing outlives the process.

mod export;
mod leases;
mod log;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;

use crate::clock;

use super::local::{LogReader, Positions, Tail};
use super::{
    At, DataEngine, Engine, EngineError, EngineStats, Event, Expiry, Export, Feed, GetResponse,
    Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId, Maintenance,
    MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest, RangeResponse, Retention,
    Revision,
};
use export::MemoryExport;
use log::EventLog;
pub use snapshot::MemorySnapshot;

/// Bytes held for feeds that lag.
const TAIL_BYTES: usize = 1024 * 1024;
/// Records that one step of maintenance removes.
const STEP_RECORDS: usize = 1000;

/// The clock of the engine. Tests use their own.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// An engine that keeps everything in memory.
pub struct MemoryEngine {
    store: Arc<MemoryStore>,
}

/// The state that the engine and its open feeds share.
struct MemoryStore {
    log: Mutex<EventLog>,
    positions: Positions,
    tail: Arc<Tail>,
    clock: Clock,
    is_closed: AtomicBool,
}

impl MemoryEngine {
    /// An empty store on the clock of its server.
    pub fn new() -> Arc<MemoryEngine> {
        MemoryEngine::with_clock(Arc::new(clock::now))
    }

    /// An empty store on this clock.
    pub fn with_clock(clock: Clock) -> Arc<MemoryEngine> {
        let store = MemoryStore {
            log: Mutex::default(),
            positions: Positions::new(Revision::ZERO),
            tail: Tail::new(Revision::ZERO, TAIL_BYTES),
            clock,
            is_closed: AtomicBool::new(false),
        };
        Arc::new(MemoryEngine {
            store: Arc::new(store),
        })
    }

    /// The content of the store now. It takes little memory as long as the store has the same
    /// values, because they are shared.
    ///
    /// # Errors
    /// [`EngineError::Closed`]
    pub fn snapshot(&self) -> Result<MemorySnapshot, EngineError> {
        let store = &self.store;
        store.answer(|log| Ok(log.snapshot((store.clock)())))
    }

    /// Resets the store to a content that it had, and returns the revision of the result.
    /// Revisions go on: each key of the store and of the snapshot gets an event, and everything
    /// before is compacted. Feeds deliver [`FeedItem::Reset`](super::FeedItem::Reset).
    ///
    /// # Errors
    /// [`EngineError::Closed`]
    pub fn reset(&self, snapshot: &MemorySnapshot) -> Result<Revision, EngineError> {
        let store = &self.store;
        store.change_as(Publication::Reset, |log, now| {
            let events = log.reset(snapshot, now)?;
            Ok((log.revision, events))
        })
    }
}

/// How events are passed to feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publication {
    Events,
    Reset,
}

impl MemoryStore {
    fn check_open(&self) -> Result<(), EngineError> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(EngineError::Closed),
            false => Ok(()),
        }
    }

    /// An answer of the log, while the engine is open.
    fn answer<T>(
        &self,
        ask: impl FnOnce(&mut EventLog) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.check_open()?;
        ask(&mut self.log.lock())
    }

    /// Changes the log and publishes the events. Both happen under the log's lock, so that
    /// positions and feeds see the order of the log.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut EventLog, SystemTime) -> Result<(T, Vec<Event>), EngineError>,
    ) -> Result<T, EngineError> {
        self.change_as(Publication::Events, change)
    }

    fn change_as<T>(
        &self,
        publication: Publication,
        change: impl FnOnce(&mut EventLog, SystemTime) -> Result<(T, Vec<Event>), EngineError>,
    ) -> Result<T, EngineError> {
        self.check_open()?;
        let mut log = self.log.lock();
        let (answer, events) = change(&mut log, (self.clock)())?;
        if !events.is_empty() {
            let events: Arc<[Event]> = events.into();
            self.positions.publish(&events);
            match publication {
                Publication::Events => self.tail.publish(&events),
                Publication::Reset => self.tail.publish_reset(&events),
            }
        }
        Ok(answer)
    }
}

impl LogReader for MemoryStore {
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        ready(self.answer(|log| log.history(&request))).boxed()
    }
}

impl DataEngine for MemoryEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        ready(self.store.answer(|log| log.get(&key, at))).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        ready(self.store.answer(|log| log.range(&request))).boxed()
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        let outcome = self.store.change(|log, now| {
            let outcome = log.commit(mutation, now)?;
            let events = match &outcome {
                Outcome::Committed(event) => vec![event.clone()],
                Outcome::Refused { .. } => Vec::new(),
            };
            Ok((outcome, events))
        });
        ready(outcome).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let store = &self.store;
        // Opened under the log's lock: nothing is compacted or published in between.
        let feed = store.answer(|log| {
            log.check_after(after)?;
            let position = store.positions.of(&prefix);
            let reader = Arc::clone(store) as Arc<dyn LogReader>;
            Ok(store.tail.open(prefix, after, position, reader))
        });
        ready(feed).boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.store.read(request)
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        let position = self.store.check_open();
        ready(position.map(|()| self.store.positions.of(prefix))).boxed()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.store.positions.of(prefix)
    }

    fn compacted(&self) -> Revision {
        self.store.log.lock().compacted()
    }

    fn health(&self) -> Health {
        match self.store.check_open() {
            Ok(()) => Health::Serving,
            Err(error) => Health::Down(error.to_string()),
        }
    }
}

impl LeaseEngine for MemoryEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        let lease = self
            .store
            .change(|log, now| Ok((log.grant(ttl, now), Vec::new())));
        ready(lease).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        let revoked = self
            .store
            .change(|log, now| Ok(((), log.revoke(lease, now)?)));
        ready(revoked).boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        ready(self.store.change(|log, now| Ok(log.expire(now)))).boxed()
    }
}

impl MaintenanceEngine for MemoryEngine {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        ready(self.store.answer(|log| Ok(log.horizon(retention, now)))).boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        ready(self.store.answer(|log| log.compact(up_to))).boxed()
    }

    fn maintain(&self, _reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        ready(self.store.answer(|log| Ok(log.maintain(STEP_RECORDS)))).boxed()
    }

    fn export(&self) -> Box<dyn Export> {
        Box::new(MemoryExport::new(Arc::clone(&self.store)))
    }

    fn stats(&self) -> EngineStats {
        self.store.log.lock().stats()
    }
}

impl Engine for MemoryEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.is_closed.store(true, Ordering::Release);
        self.store.tail.close();
        ready(()).boxed()
    }
}
