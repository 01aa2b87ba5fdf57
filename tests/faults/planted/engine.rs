//! An engine that forwards everything to etcd, except for one bug.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expect, Expiry, Feed, FeedItem, FeedProgress,
    GetResponse, Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId,
    Maintenance, MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest,
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
    /// A reader of the newest revision is given the answer of a read that was sent before.
    JoinsReadsUnderWay,
    /// A write whose answer is lost is sent again as if it had failed.
    TriesUnknownWritesAgain,
    /// A read is answered with what was read a moment ago.
    RemembersReads,
    /// A write's precondition is forgotten.
    WritesOverAnything,
    /// Feeds tell that they are up to date before they are.
    TellsProgressEarly,
}

/// The simulated latency to etcd. Timing bugs appear on slow connections.
const WAY: Duration = Duration::from_millis(20);
/// How long [`Bug::RemembersReads`] remembers.
const REMEMBERED: Duration = Duration::from_millis(40);

type Reading = Shared<BoxFuture<'static, Result<Position, EngineError>>>;

/// See the module's documentation.
pub struct Planted {
    inner: Arc<EtcdEngine>,
    bug: Bug,
    under_way: Mutex<Option<Reading>>,
    remembered: Mutex<HashMap<Key, (Instant, GetResponse)>>,
    commits: AtomicU64,
}

impl Planted {
    pub fn in_front_of(inner: Arc<EtcdEngine>, bug: Bug) -> Arc<Planted> {
        Arc::new(Planted {
            inner,
            bug,
            under_way: Mutex::default(),
            remembered: Mutex::default(),
            commits: AtomicU64::new(0),
        })
    }

    async fn get_remembered(&self, key: Key, at: At) -> Result<GetResponse, EngineError> {
        let known = self.remembered.lock().get(&key).cloned();
        if let Some((since, answer)) = known
            && since.elapsed() < REMEMBERED
        {
            return Ok(answer);
        }
        let answer = self.inner.get(key.clone(), at).await?;
        let entry = (Instant::now(), answer.clone());
        self.remembered.lock().insert(key, entry);
        Ok(answer)
    }

    async fn commit_with_a_bug(&self, mut mutation: Mutation) -> Result<Outcome, EngineError> {
        if self.bug == Bug::WritesOverAnything {
            let current = self.inner.get(mutation.key.clone(), At::Latest).await?.item;
            mutation.expect =
                current.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision));
        }
        let outcome = self.inner.commit(mutation.clone()).await;
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        match self.bug {
            // Every fourth answer is lost on the way.
            Bug::TriesUnknownWritesAgain if number % 4 == 3 => self.inner.commit(mutation).await,
            _ => outcome,
        }
    }
}

/// A feed whose events take their way.
struct Slow {
    inner: Box<dyn Feed>,
    bug: Bug,
    newest: Arc<EtcdEngine>,
    prefix: Prefix,
    told: Revision,
    next: Option<FeedItem>,
}

impl Feed for Slow {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            if let Some(item) = self.next.take() {
                tokio::time::sleep(WAY).await;
                return Ok(item);
            }
            let item = self.inner.next().await?;
            let newest = self.newest.known(&self.prefix).revision;
            if self.bug == Bug::TellsProgressEarly && newest > self.told {
                self.told = newest;
                self.next = Some(item);
                return Ok(FeedItem::Progress(newest));
            }
            tokio::time::sleep(WAY).await;
            Ok(item)
        }
        .boxed()
    }
}

impl DataEngine for Planted {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        match self.bug {
            Bug::RemembersReads => self.get_remembered(key, at).boxed(),
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
            Ok(Box::new(Slow {
                inner,
                bug: self.bug,
                newest: Arc::clone(&self.inner),
                prefix,
                told: after,
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
            // The answer takes its way.
            tokio::time::sleep(WAY).await;
            position
        };
        if self.bug != Bug::JoinsReadsUnderWay {
            return read.boxed();
        }
        let mut under_way = self.under_way.lock();
        let joined = under_way.take().filter(|reading| reading.peek().is_none());
        let reading = joined.unwrap_or_else(|| read.boxed().shared());
        *under_way = Some(reading.clone());
        reading.boxed()
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

impl LeaseEngine for Planted {
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

impl MaintenanceEngine for Planted {
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

impl Engine for Planted {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
