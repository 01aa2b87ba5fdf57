//! An engine that keeps everything in memory: for tests, and the plainest statement of what an
//! engine does. [`state`] folds and answers, [`leases`] deletes what has run out; this file locks
//! them and publishes.

mod leases;
mod state;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Event, Expiry, Feed, GetResponse, Health,
    HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId, Maintenance, MaintenanceEngine,
    Mutation, Outcome, Position, Prefix, RangeRequest, RangeResponse, Retention, Revision,
};
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::storage::live::{Backlog, Positions, Tail};
use state::State;

/// Bytes held for feeds that lag.
const TAIL_BYTES: usize = 1024 * 1024;
/// Records that one step of maintenance removes.
const STEP_RECORDS: usize = 1000;

/// Tells the time; tests bring their own.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// What goes wrong with the next commit, for tests of those who must cope.
#[derive(Clone, Debug)]
pub struct CommitFault {
    /// The answer.
    pub error: EngineError,
    /// Whether the mutation takes place all the same, as it may when the outcome is unknown.
    pub takes_place: bool,
}

/// The engine; see the module's documentation.
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    positions: Positions,
    tail: Arc<Tail>,
    clock: Clock,
    faults: Mutex<Faults>,
    /// Commits read it, who holds them up writes it.
    held: Arc<RwLock<()>>,
}

#[derive(Default)]
struct Faults {
    commits: VecDeque<CommitFault>,
    everything: Option<EngineError>,
    closed: bool,
}

impl MemoryEngine {
    /// An empty store on the system's clock.
    pub fn new() -> Arc<MemoryEngine> {
        MemoryEngine::with_clock(Arc::new(SystemTime::now))
    }

    /// An empty store on this clock.
    pub fn with_clock(clock: Clock) -> Arc<MemoryEngine> {
        let shared = Shared {
            state: Mutex::new(State::default()),
            positions: Positions::new(Revision::ZERO),
            tail: Tail::new(Revision::ZERO, TAIL_BYTES),
            clock,
            faults: Mutex::new(Faults::default()),
            held: Arc::default(),
        };
        Arc::new(MemoryEngine {
            shared: Arc::new(shared),
        })
    }

    /// Lets a commit fail this way; faults are used up one per commit, in order.
    pub fn fail_commit(&self, fault: CommitFault) {
        self.shared.faults.lock().commits.push_back(fault);
    }

    /// Lets commits wait until the answer is dropped, as they do behind others.
    pub async fn hold_commits(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.shared.held).write_owned().await
    }

    /// Lets every call fail with this error until it is taken back by `None`.
    pub fn fail_everything(&self, error: Option<EngineError>) {
        self.shared.faults.lock().everything = error;
    }
}

impl Shared {
    fn check(&self) -> Result<(), EngineError> {
        let faults = self.faults.lock();
        match &faults.everything {
            _ if faults.closed => Err(EngineError::Closed),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn commit(&self, mutation: Mutation) -> Result<Outcome, EngineError> {
        self.check()?;
        let fault = self.faults.lock().commits.pop_front();
        if let Some(fault) = &fault
            && !fault.takes_place
        {
            return Err(fault.error.clone());
        }
        // Published under the lock, so that positions and feeds see the order of the log.
        let mut state = self.state.lock();
        let outcome = state.commit(mutation, (self.clock)())?;
        if let Outcome::Committed(event) = &outcome {
            self.publish(vec![event.clone()]);
        }
        fault.map_or(Ok(outcome), |fault| Err(fault.error))
    }

    /// Shows events to everybody; called under the lock of the state.
    fn publish(&self, events: Vec<Event>) {
        if !events.is_empty() {
            let events: Arc<[Event]> = events.into();
            self.positions.publish(&events);
            self.tail.publish(&events);
        }
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        self.check()?;
        let mut state = self.state.lock();
        self.publish(state.revoke(lease, (self.clock)())?);
        Ok(())
    }

    fn expire(&self) -> Result<Expiry, EngineError> {
        self.check()?;
        let mut state = self.state.lock();
        let (expiry, events) = state.expire((self.clock)());
        self.publish(events);
        Ok(expiry)
    }
}

impl Backlog for Shared {
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        let chunk = self
            .check()
            .and_then(|()| self.state.lock().history(&request));
        ready(chunk).boxed()
    }
}

impl DataEngine for MemoryEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        let answer = self
            .shared
            .check()
            .and_then(|()| self.shared.state.lock().get(&key, at));
        ready(answer).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        let answer = self
            .shared
            .check()
            .and_then(|()| self.shared.state.lock().range(&request));
        ready(answer).boxed()
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        async move {
            let _turn = self.shared.held.read().await;
            self.shared.commit(mutation)
        }
        .boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let shared = &self.shared;
        let feed = shared.check().and_then(|()| {
            // Opened under the lock: nothing is compacted or published in between.
            let state = shared.state.lock();
            state.check_after(after)?;
            let position = shared.positions.of(&prefix);
            Ok(shared.tail.open(
                prefix,
                after,
                position,
                Arc::clone(shared) as Arc<dyn Backlog>,
            ))
        });
        ready(feed).boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.shared.read(request)
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        let position = self
            .shared
            .check()
            .map(|()| self.shared.positions.of(prefix));
        ready(position).boxed()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.shared.positions.of(prefix)
    }

    fn compacted(&self) -> Revision {
        self.shared.state.lock().compacted()
    }

    fn health(&self) -> Health {
        match self.shared.check() {
            Ok(()) => Health::Serving,
            Err(EngineError::OutOfSpace(why)) => Health::ReadOnly(why),
            Err(error) => Health::Down(error.to_string()),
        }
    }
}

impl LeaseEngine for MemoryEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        let check = self.shared.check();
        let now = (self.shared.clock)();
        ready(check.map(|()| self.shared.state.lock().grant(ttl, now))).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        async move {
            let _turn = self.shared.held.read().await;
            self.shared.revoke(lease)
        }
        .boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        async move {
            let _turn = self.shared.held.read().await;
            self.shared.expire()
        }
        .boxed()
    }
}

impl MaintenanceEngine for MemoryEngine {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        let check = self.shared.check();
        ready(check.map(|()| self.shared.state.lock().horizon(retention, now))).boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        let check = self.shared.check();
        ready(check.and_then(|()| self.shared.state.lock().compact(up_to))).boxed()
    }

    fn maintain(&self, _reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        let check = self.shared.check();
        ready(check.map(|()| self.shared.state.lock().maintain(STEP_RECORDS))).boxed()
    }

    fn stats(&self) -> EngineStats {
        self.shared.state.lock().stats()
    }
}

impl Engine for MemoryEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.shared.faults.lock().closed = true;
        self.shared.tail.close();
        ready(()).boxed()
    }
}
