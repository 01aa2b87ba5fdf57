//! An engine that forwards everything to etcd, except for one bug.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expect, Expiry, Export, Feed, FeedItem,
    FeedProgress, GetResponse, Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine,
    LeaseId, Maintenance, MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest,
    RangeResponse, Retention, Revision,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use taffrail::storage::etcd::EtcdEngine;
use tokio::time::Instant;

/// The bug of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A read of the newest revision gets the answer of a read that was sent before.
    SharesReadsInFlight,
    /// A write whose answer is lost is sent again as if it had failed.
    RetriesUnknownWrites,
    /// A read gets the answer of an earlier read.
    CachesReads,
    /// The precondition of a write is ignored.
    IgnoresPreconditions,
    /// Feeds report progress before the events that precede it.
    ReportsProgressEarly,
}

/// The simulated latency to etcd. Timing bugs appear on slow connections.
const LATENCY: Duration = Duration::from_millis(20);
/// How long [`Bug::CachesReads`] caches.
const CACHED_FOR: Duration = Duration::from_millis(40);

type PositionRead = Shared<BoxFuture<'static, Result<Position, EngineError>>>;

/// See the module's documentation.
pub struct BuggyEngine {
    inner: Arc<EtcdEngine>,
    bug: Bug,
    in_flight: Mutex<Option<PositionRead>>,
    cached: Mutex<HashMap<Key, (Instant, GetResponse)>>,
    commits: AtomicU64,
}

impl BuggyEngine {
    pub fn new(inner: Arc<EtcdEngine>, bug: Bug) -> Arc<BuggyEngine> {
        Arc::new(BuggyEngine {
            inner,
            bug,
            in_flight: Mutex::default(),
            cached: Mutex::default(),
            commits: AtomicU64::new(0),
        })
    }

    async fn get_cached(&self, key: Key, at: At) -> Result<GetResponse, EngineError> {
        let known = self.cached.lock().get(&key).cloned();
        if let Some((since, answer)) = known
            && since.elapsed() < CACHED_FOR
        {
            return Ok(answer);
        }
        let answer = self.inner.get(key.clone(), at).await?;
        let entry = (Instant::now(), answer.clone());
        self.cached.lock().insert(key, entry);
        Ok(answer)
    }

    async fn commit_with_a_bug(&self, mut mutation: Mutation) -> Result<Outcome, EngineError> {
        if self.bug == Bug::IgnoresPreconditions {
            let current = self.inner.get(mutation.key.clone(), At::Latest).await?.item;
            mutation.expect =
                current.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision));
        }
        let outcome = self.inner.commit(mutation.clone()).await;
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        match self.bug {
            // Every fourth answer is lost on the way.
            Bug::RetriesUnknownWrites if number % 4 == 3 => self.inner.commit(mutation).await,
            _ => outcome,
        }
    }
}

/// A feed with latency.
struct DelayedFeed {
    inner: Box<dyn Feed>,
    bug: Bug,
    newest: Arc<EtcdEngine>,
    prefix: Prefix,
    reported: Revision,
    next: Option<FeedItem>,
}

impl Feed for DelayedFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            if let Some(item) = self.next.take() {
                tokio::time::sleep(LATENCY).await;
                return Ok(item);
            }
            let item = self.inner.next().await?;
            let newest = self.newest.known(&self.prefix).revision;
            if self.bug == Bug::ReportsProgressEarly && newest > self.reported {
                self.reported = newest;
                self.next = Some(item);
                return Ok(FeedItem::Progress(newest));
            }
            tokio::time::sleep(LATENCY).await;
            Ok(item)
        }
        .boxed()
    }
}

impl DataEngine for BuggyEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        match self.bug {
            Bug::CachesReads => self.get_cached(key, at).boxed(),
            _ => self.inner.get(key, at),
        }
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        self.inner.range(request)
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        self.commit_with_a_bug(mutation).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        async move {
            let inner = self.inner.feed(prefix.clone(), after).await?;
            Ok(Box::new(DelayedFeed {
                inner,
                bug: self.bug,
                newest: Arc::clone(&self.inner),
                prefix,
                reported: after,
                next: None,
            }) as Box<dyn Feed>)
        }
        .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.inner.history(request)
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.clone());
        let read = async move {
            let position = inner.current(&prefix).await;
            tokio::time::sleep(LATENCY).await;
            position
        };
        if self.bug != Bug::SharesReadsInFlight {
            return read.boxed();
        }
        let mut in_flight = self.in_flight.lock();
        let joined = in_flight.take().filter(|read| read.peek().is_none());
        let shared = joined.unwrap_or_else(|| read.boxed().shared());
        *in_flight = Some(shared.clone());
        shared.boxed()
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
        self.inner.health()
    }
}

impl LeaseEngine for BuggyEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        self.inner.grant(ttl)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.revoke(lease)
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        self.inner.expire()
    }
}

impl MaintenanceEngine for BuggyEngine {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        self.inner.horizon(retention, now)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.compact(up_to)
    }

    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.inner.maintain(reclaim)
    }

    fn export(&self) -> Box<dyn Export> {
        self.inner.export()
    }

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }
}

impl Engine for BuggyEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
