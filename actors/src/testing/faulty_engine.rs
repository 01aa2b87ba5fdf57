//! An engine that fails, waits and counts as a test says.
//!
//! [`FaultyEngine`] passes every call on to another engine, which is one in memory unless the test
//! gives another one. Puts and deletes of the test itself never fail.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, watch};
use tokio::time::Instant;

use crate::engine::{
    At, Change, DataEngine, Engine, EngineError, EngineStats, Event, Expect, Expiry, Export, Feed,
    FeedItem, FeedProgress, GetResponse, Health, HistoryChunk, HistoryRequest, Key, KeyValue,
    Lease, LeaseEngine, LeaseId, Maintenance, MaintenanceEngine, MemoryEngine, Mutation, Origin,
    Outcome, PendingOutcome, Position, Prefix, Prepared, RangeRequest, RangeResponse, Retention,
    Revision, TicketIssuer,
};
use crate::reflector::PAGE_ITEMS;
use crate::tasks;

/// An engine that fails, waits and counts as a test says.
pub struct FaultyEngine {
    itself: Weak<FaultyEngine>,
    inner: Arc<dyn Engine>,
    faults: Mutex<Faults>,
    /// The events that the test has written.
    events: Mutex<Vec<Event>>,
    feeds: watch::Sender<FeedFaults>,
    /// A commit takes it for reading. A test that holds commits back takes it for writing.
    commits: Arc<RwLock<()>>,
    reads: AtomicUsize,
    history_reads: AtomicUsize,
}

#[derive(Default)]
struct Faults {
    /// Every call fails with this.
    down: Option<EngineError>,
    /// The next commit fails with this.
    next_commit: Option<EngineError>,
    /// Reads of a Reflector that lists fail.
    refuses_fills: bool,
    /// How long a grant takes, even if it fails.
    grants_take: Duration,
    /// The events that are written at every step that gives space back. The steps never end then.
    events_per_reclaim: u64,
    /// The times to live of the leases granted, in order.
    granted: Vec<Duration>,
    /// The results of the next steps of expiry, instead of the engine's.
    expiries: VecDeque<Expiry>,
    expiry_steps: u64,
    records_removed: u64,
    /// Steps of maintenance with `reclaim`.
    reclaiming_steps: u64,
}

/// The faults of open feeds.
#[derive(Clone, Default)]
struct FeedFaults {
    /// Every feed fails with this.
    down: Option<EngineError>,
    /// Feeds opened before the newest of these breaks fail.
    breaks: u64,
    /// Feeds deliver nothing.
    is_held: bool,
    /// Feeds report progress up to here.
    progress: Revision,
}

impl FaultyEngine {
    /// An empty engine in memory, on the clock of the test's runtime.
    pub fn new() -> Arc<FaultyEngine> {
        let (started, begun) = (SystemTime::now(), Instant::now());
        let clock = move || started + begun.elapsed();
        FaultyEngine::over(MemoryEngine::with_clock(Arc::new(clock)))
    }

    /// Injects faults before this engine.
    pub fn over(inner: Arc<dyn Engine>) -> Arc<FaultyEngine> {
        Arc::new_cyclic(|itself| FaultyEngine {
            itself: itself.clone(),
            inner,
            faults: Mutex::default(),
            events: Mutex::default(),
            feeds: watch::Sender::default(),
            commits: Arc::default(),
            reads: AtomicUsize::new(0),
            history_reads: AtomicUsize::new(0),
        })
    }

    /// Lets every call and every open feed fail with this error; `None` ends that.
    pub fn set_down(&self, error: Option<EngineError>) {
        self.faults.lock().down.clone_from(&error);
        self.feeds.send_modify(|feeds| feeds.down = error);
    }

    /// Breaks the open feeds once.
    pub fn break_feeds(&self) {
        self.feeds.send_modify(|feeds| feeds.breaks += 1);
    }

    /// Sets whether open feeds deliver nothing.
    pub fn hold_feeds(&self, is_held: bool) {
        self.feeds.send_modify(|feeds| feeds.is_held = is_held);
    }

    /// Lets feeds report progress up to the newest revision, as those of etcd do.
    pub fn tell_progress(&self) {
        let revision = self.revision();
        self.feeds.send_modify(|feeds| feeds.progress = revision);
    }

    /// Lets commits wait until the returned guard is dropped. Mutations are queued meanwhile.
    pub async fn hold_commits(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.commits).write_owned().await
    }

    /// Lets the next commit fail.
    pub fn fail_next_commit(&self, error: EngineError) {
        self.faults.lock().next_commit = Some(error);
    }

    /// Sets whether the reads of Reflectors that list fail.
    pub fn refuse_fills(&self, refuses: bool) {
        self.faults.lock().refuses_fills = refuses;
    }

    /// Sets how long every grant takes, even if it fails.
    pub fn set_grants_take(&self, time: Duration) {
        self.faults.lock().grants_take = time;
    }

    /// Adds the result of a further step of expiry.
    pub fn expire_next(&self, expiry: Expiry) {
        self.faults.lock().expiries.push_back(expiry);
    }

    /// Sets how many events are written at each step that gives space back.
    pub fn write_while_reclaiming(&self, events: u64) {
        self.faults.lock().events_per_reclaim = events;
    }

    /// Reads of keys, ranges and history so far.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Reads of history so far.
    pub fn history_reads(&self) -> usize {
        self.history_reads.load(Ordering::SeqCst)
    }

    /// The times to live of the leases granted so far.
    pub fn granted(&self) -> Vec<Duration> {
        self.faults.lock().granted.clone()
    }

    /// Steps of expiry so far.
    pub fn expiry_steps(&self) -> u64 {
        self.faults.lock().expiry_steps
    }

    /// Records that maintenance has removed.
    pub fn records_removed(&self) -> u64 {
        self.faults.lock().records_removed
    }

    /// Steps of maintenance with `reclaim`.
    pub fn reclaiming_steps(&self) -> u64 {
        self.faults.lock().reclaiming_steps
    }

    fn check(&self) -> Result<(), EngineError> {
        self.faults.lock().down.clone().map_or(Ok(()), Err)
    }

    fn check_commit(&self) -> Result<(), EngineError> {
        self.check()?;
        let next = self.faults.lock().next_commit.take();
        next.map_or(Ok(()), Err)
    }

    fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::SeqCst);
    }
}

/// Synchronous changes and reads for tests, which only an engine in memory allows.
impl FaultyEngine {
    /// Puts a value, whatever was there before.
    pub fn put(&self, key: &Key, value: &str) -> Revision {
        let value = Bytes::from(value.to_owned());
        let lease = LeaseId::default();
        self.change(key, Change::Put { value, lease })
    }

    /// Deletes a key that exists.
    pub fn delete(&self, key: &Key) -> Revision {
        self.change(key, Change::Delete)
    }

    /// Compacts up to a revision.
    pub fn compact_now(&self, up_to: Revision) {
        at_once(self.inner.compact(up_to)).unwrap();
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.inner.stats().revision
    }

    /// Whether a key exists.
    pub fn exists(&self, key: &Key) -> bool {
        self.value(key).is_some()
    }

    /// A range.
    pub fn range_now(&self, request: RangeRequest) -> RangeResponse {
        at_once(self.inner.range(request)).unwrap()
    }

    /// The events after a revision that the test has written, compacted ones too.
    pub fn events_after(&self, revision: Revision) -> Vec<Event> {
        let events = self.events.lock();
        let seen = events.partition_point(|event| event.revision <= revision);
        events[seen..].to_vec()
    }

    fn value(&self, key: &Key) -> Option<KeyValue> {
        let read = at_once(self.inner.get(key.clone(), At::Latest));
        read.unwrap().item
    }

    fn change(&self, key: &Key, change: Change) -> Revision {
        let expect = match self.value(key) {
            Some(item) => Expect::Unchanged(item.revision),
            None => Expect::Absent,
        };
        let mutation = Mutation {
            key: key.clone(),
            expect,
            change,
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        match at_once(self.inner.commit(mutation)).unwrap() {
            Outcome::Committed(event) => {
                let revision = event.revision;
                self.events.lock().push(event);
                revision
            }
            refused @ Outcome::Refused { .. } => panic!("{key}: {refused:?}"),
        }
    }
}

/// The answer of an engine that never waits.
fn at_once<T>(answer: BoxFuture<'_, T>) -> T {
    answer.now_or_never().unwrap()
}

struct FaultyFeed {
    inner: Box<dyn Feed>,
    faults: watch::Receiver<FeedFaults>,
    /// Breaks before it was opened.
    breaks: u64,
    /// The progress reported so far.
    reported: Revision,
}

impl FaultyFeed {
    fn fault(&mut self) -> Option<EngineError> {
        let faults = self.faults.borrow_and_update();
        match faults.breaks > self.breaks {
            true => Some(EngineError::Unavailable("the feed broke".to_owned())),
            false => faults.down.clone(),
        }
    }

    async fn next_item(&mut self) -> Result<FeedItem, EngineError> {
        let item = loop {
            if let Some(error) = self.fault() {
                return Err(error);
            }
            let progress = self.faults.borrow().progress;
            tokio::select! {
                biased;
                item = self.inner.next() => break item,
                () = ready(()), if progress > self.reported => {
                    self.reported = progress;
                    break Ok(FeedItem::Progress(progress));
                }
                Ok(()) = self.faults.changed() => {}
            }
        };
        // If the sender is gone, the test is over.
        let _ = self.faults.wait_for(|faults| !faults.is_held).await;
        item
    }
}

impl Feed for FaultyFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        self.next_item().boxed()
    }
}

impl DataEngine for FaultyEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        self.count_read();
        match self.check() {
            Ok(()) => self.inner.get(key, at),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        self.count_read();
        if request.limit == PAGE_ITEMS && self.faults.lock().refuses_fills {
            let refused = EngineError::Unavailable("no fills today".to_owned());
            return ready(Err(refused)).boxed();
        }
        match self.check() {
            Ok(()) => self.inner.range(request),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        async move {
            let _turn = self.commits.read().await;
            self.check_commit()?;
            self.inner.commit(mutation).await
        }
        .boxed()
    }

    fn queue(&self, mutation: Mutation, issuer: TicketIssuer) -> BoxFuture<'_, PendingOutcome> {
        if self.commits.try_read().is_ok() {
            return match self.check_commit() {
                Ok(()) => self.inner.queue(mutation, issuer),
                Err(error) => ready(ready(Err(error)).boxed()).boxed(),
            };
        }
        let (engine, commits) = (self.itself.clone(), Arc::clone(&self.commits));
        // Commits take place in the order in which their tasks begin.
        let outcome = tasks::spawn(async move {
            let _turn = commits.read_owned().await;
            let engine = engine.upgrade().unwrap();
            engine.check_commit()?;
            engine.inner.queue(mutation, issuer).await.await
        });
        ready(outcome.map(Result::unwrap).boxed()).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let faults = self.feeds.subscribe();
        let breaks = faults.borrow().breaks;
        async move {
            self.check()?;
            let inner = self.inner.feed(prefix, after).await?;
            Ok(Box::new(FaultyFeed {
                inner,
                faults,
                breaks,
                reported: after,
            }) as Box<dyn Feed>)
        }
        .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        async move {
            // Other tasks run before the answer, as with a real engine.
            tokio::task::yield_now().await;
            self.count_read();
            self.history_reads.fetch_add(1, Ordering::SeqCst);
            self.check()?;
            self.inner.history(request).await
        }
        .boxed()
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        match self.check() {
            Ok(()) => self.inner.current(prefix),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.inner.known(prefix)
    }

    fn feed_progress(&self) -> FeedProgress {
        self.inner.feed_progress()
    }

    fn request_progress(&self, prefix: &Prefix, up_to: Revision) {
        self.inner.request_progress(prefix, up_to);
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn health(&self) -> Health {
        match self.check() {
            Ok(()) => self.inner.health(),
            Err(error) => Health::Down(error.to_string()),
        }
    }
}

impl LeaseEngine for FaultyEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        async move {
            // Other tasks run before the answer, as with a real engine.
            tokio::task::yield_now().await;
            let takes = self.faults.lock().grants_take;
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            self.check()?;
            let lease = self.inner.grant(ttl).await?;
            self.faults.lock().granted.push(ttl);
            Ok(lease)
        }
        .boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        async move {
            let _turn = self.commits.read().await;
            self.check()?;
            self.inner.revoke(lease).await
        }
        .boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        async move {
            let _turn = self.commits.read().await;
            self.faults.lock().expiry_steps += 1;
            self.check()?;
            let scripted = self.faults.lock().expiries.pop_front();
            match scripted {
                Some(expiry) => Ok(expiry),
                None => self.inner.expire().await,
            }
        }
        .boxed()
    }
}

impl MaintenanceEngine for FaultyEngine {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        match self.check() {
            Ok(()) => self.inner.horizon(retention, now),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        match self.check() {
            Ok(()) => self.inner.compact(up_to),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        async move {
            self.check()?;
            let events = self.faults.lock().events_per_reclaim;
            if reclaim && events > 0 {
                for _ in 0..events {
                    self.put(&crate::testing::key("ns/busy"), "red");
                }
                return Ok(Maintenance {
                    more: true,
                    ..Maintenance::default()
                });
            }
            let step = self.inner.maintain(reclaim).await?;
            let mut faults = self.faults.lock();
            faults.records_removed += step.removed;
            faults.reclaiming_steps += u64::from(reclaim);
            Ok(step)
        }
        .boxed()
    }

    fn export(&self) -> Box<dyn Export> {
        self.inner.export()
    }

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }
}

impl Engine for FaultyEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn may_be_of_other_edition(&self, revision: Revision) -> bool {
        self.inner.may_be_of_other_edition(revision)
    }

    fn note_edition(&self, as_of: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.note_edition(as_of)
    }
}
