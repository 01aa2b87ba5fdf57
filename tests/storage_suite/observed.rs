//! An engine that counts what is read from it, and whose feeds can be held back, so that a cache
//! lags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expiry, Feed, FeedItem, FeedProgress,
    GetResponse, Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId,
    Maintenance, MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest,
    RangeResponse, Retention, Revision,
};
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

/// See the module's documentation.
pub struct Observed {
    inner: Arc<dyn Engine>,
    reads: AtomicUsize,
    held: watch::Sender<bool>,
    refuses_fills: AtomicBool,
}

/// Items of one page when a cache is filled; no list of a check asks for so many.
const FILL_ITEMS: usize = 2_048;

impl Observed {
    pub fn new(inner: Arc<dyn Engine>) -> Arc<Observed> {
        Arc::new(Observed {
            inner,
            reads: AtomicUsize::new(0),
            held: watch::Sender::new(false),
            refuses_fills: AtomicBool::new(false),
        })
    }

    /// Whether caches that begin can be filled.
    pub fn refuse_fills(&self, refuses: bool) {
        self.refuses_fills.store(refuses, Ordering::SeqCst);
    }

    /// How often keys, ranges or history were read so far.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// From here on feeds keep what happens to themselves, until they are let go.
    pub fn hold_feeds(&self, held: bool) {
        self.held.send_replace(held);
    }

    fn count(&self) {
        self.reads.fetch_add(1, Ordering::SeqCst);
    }
}

struct Held {
    inner: Box<dyn Feed>,
    held: watch::Receiver<bool>,
}

impl Feed for Held {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            let item = self.inner.next().await;
            // Once nobody can let it go any more the test is over.
            let _ = self.held.wait_for(|held| !held).await;
            item
        }
        .boxed()
    }
}

impl DataEngine for Observed {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        self.count();
        self.inner.get(key, at)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        self.count();
        if request.limit == FILL_ITEMS && self.refuses_fills.load(Ordering::SeqCst) {
            let refused = EngineError::Unavailable("no fills today".to_owned());
            return std::future::ready(Err(refused)).boxed();
        }
        self.inner.range(request)
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        self.inner.commit(mutation)
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let held = self.held.subscribe();
        let feed = self.inner.feed(prefix, after);
        feed.map(|feed| Ok(Box::new(Held { inner: feed?, held }) as Box<dyn Feed>))
            .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.count();
        self.inner.history(request)
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        self.inner.current(prefix)
    }

    fn feed_progress(&self) -> FeedProgress {
        self.inner.feed_progress()
    }

    fn request_progress(&self, prefix: &Prefix, up_to: Revision) {
        self.inner.request_progress(prefix, up_to);
    }

    fn lineage(&self) -> u64 {
        self.inner.lineage()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.inner.known(prefix)
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}

impl LeaseEngine for Observed {
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

impl MaintenanceEngine for Observed {
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

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }
}

impl Engine for Observed {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
