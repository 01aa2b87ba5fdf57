//! The store of one resource with its watch cache. It serves what it may from the cache, and
//! everything else from the store below (CacherStorage in Kubernetes).
//!
//! It uses snapshots, positions and watches of the Cacher, and the store below. It must not know
//! the engine's keys or encryption. Reads take the Cacher's published snapshot and never enter its
//! mailbox. Two numbers of the engine say how recent a snapshot must be (docs/design.md 5): the
//! store's revision R and the prefix's last revision L. A snapshot that has reached L shows
//! everything up to R, so the answer's version is the larger of R and the snapshot's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::cacher::{CacherHandle, NotFresh, Readiness};
use actors::dispatcher::{StartPoint, WatchStart};
use actors::engine::local::{RemainingCounts, check_after};
use actors::engine::{FeedProgress, Key, Origin, Position, Prefix, Revision};
use actors::object::{CachedObject, DecodeError};
use actors::snapshot::Snapshot;
use actors::watch::{Everything, WatchInterest};
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};
use parking_lot::Mutex;

use super::underlying::Underlying;
use super::{
    Asked, DeleteRequest, GetRequest, HistoryRequest, ListRequest, NewObject, ObjectHistory,
    ObjectList, RunningWatch, Stats, Storage, StorageError, StorageErrorKind, UpdateFunction,
    UpdateRequest, ValidateDeletion, WatchRequest, WriteOutcome,
};
use kept_snapshots::{Bounds, KeptSnapshots};

mod delegator;
mod kept_snapshots;
mod list;

/// How long the first requests wait until a cache is filled that nobody has used before. It answers
/// 429 if that takes longer.
const FIRST_FILL_WITHIN: Duration = Duration::from_secs(10);

/// How long a read waits for the cache to become recent enough (WC-30).
const FRESH_WITHIN: Duration = Duration::from_secs(3);

/// The seconds after which a client may retry a future version (ST-13).
const TOO_LARGE_RETRY: u32 = 1;

/// How often a reader that waits for a future revision checks the store (WC-30: at this pace
/// progress is requested where needed).
const FUTURE_PACE: Duration = Duration::from_millis(25);

/// The store of one resource with its watch cache.
#[derive(Clone)]
pub struct Cached {
    store: Arc<Underlying>,
    cacher: CacherHandle,
    kept: Arc<KeptSnapshots>,
    /// The number of objects that remain after a page of a list.
    counts: Arc<RemainingCounts>,
    /// The position at which the store was found empty while nobody used the cache.
    empty_at: Arc<Mutex<Option<Revision>>>,
}

/// A snapshot, and the version that it shows.
struct Fresh {
    snapshot: Arc<Snapshot>,
    revision: Revision,
}

impl Cached {
    /// Adds a cache to a store.
    pub fn new(store: impl Into<Arc<Underlying>>, cacher: CacherHandle) -> Cached {
        Cached {
            kept: Arc::new(KeptSnapshots::new(cacher.resource())),
            counts: Arc::default(),
            empty_at: Arc::default(),
            store: store.into(),
            cacher,
        }
    }

    fn prefix(&self) -> &Prefix {
        self.store.keys.resource_prefix()
    }

    /// Has the cache filled, if nobody has used it before, and waits for that.
    async fn in_use(&self) {
        self.cacher.in_use(FIRST_FILL_WITHIN).await;
    }

    /// Counts the objects in the store, because nobody uses the cache. An empty resource is counted
    /// once: from then on its position shows whether it still is.
    async fn stats_of_unused(&self) -> Result<Stats, StorageError> {
        if self.is_still_empty() {
            return Ok(Stats::default());
        }
        // Later writes get a later position.
        let before = self.store.engine.known(self.prefix());
        let stats = self.store.stats().await?;
        let empty_at = (stats.object_count == 0).then_some(before.prefix_revision);
        *self.empty_at.lock() = empty_at.filter(|_| self.is_always_fresh());
        Ok(stats)
    }

    /// Whether the store was found empty, and nothing was written since.
    fn is_still_empty(&self) -> bool {
        let Some(empty_at) = *self.empty_at.lock() else {
            return false;
        };
        // Such an engine knows each write that was acknowledged.
        self.is_always_fresh() && self.store.engine.known(self.prefix()).prefix_revision == empty_at
    }

    /// The error of a cache that is filling (ST-16, WC-41).
    fn not_ready(&self) -> StorageError {
        let readiness = self.cacher.readiness();
        // At least 1, so that a client of a cache that became ready meanwhile retries too.
        let retry_after = readiness.retry_after(Instant::now()).max(1);
        let last_error = match readiness {
            Readiness::Pending { last_error, .. } => last_error,
            Readiness::Stopped => Some("the storage is stopped".to_owned()),
            Readiness::Ready { .. } => None,
        };
        let kind = StorageErrorKind::NotReady {
            retry_after,
            last_error,
        };
        self.store.fault(&self.prefix().to_string(), kind)
    }

    /// The newest published snapshot.
    fn published(&self) -> Result<Arc<Snapshot>, StorageError> {
        self.current().ok_or_else(|| self.not_ready())
    }

    /// The newest published snapshot, unless the store has begun a new epoch since. Then the
    /// snapshot is void and will be replaced.
    fn current(&self) -> Option<Arc<Snapshot>> {
        let epoch = self.store.engine.epoch();
        let snapshot = self.cacher.snapshot()?;
        (snapshot.epoch == epoch).then_some(snapshot)
    }

    /// The snapshot as it is, with the newest version that it may claim.
    fn any_state(&self) -> Result<Fresh, StorageError> {
        let position = self.store.engine.known(self.prefix());
        Ok(shown(self.published()?, position))
    }

    /// Whether the cache can be asked to catch up with the store (LI-32).
    fn can_catch_up(&self) -> bool {
        self.store.engine.feed_progress() != FeedProgress::Seldom
    }

    /// The conditions under which kept snapshots are valid.
    fn bounds(&self) -> Bounds {
        Bounds {
            floor: self.cacher.ring_floor(),
            epoch: self.store.engine.epoch(),
        }
    }

    /// A snapshot that shows every write acknowledged before the call (LI-20, WA-12).
    async fn consistent(&self) -> Result<Fresh, StorageError> {
        let prefix = self.prefix();
        let position = self.store.position(prefix).await?;
        self.reach(position, position.prefix_revision, position.revision)
            .await
    }

    /// The current state of a watch's objects, from the store.
    async fn read_through(&self, watch: &WatchRequest) -> Result<Fresh, StorageError> {
        let list = self
            .store
            .get_list(ListRequest {
                key: watch.key.clone(),
                recursive: watch.recursive,
                asked: Asked::Unset,
                version_match: None,
                limit: 0,
                continue_token: None,
                predicate: Arc::new(Everything),
            })
            .await?;
        Ok(Fresh {
            snapshot: Arc::new(Snapshot::of(list.items, list.revision)),
            revision: list.revision,
        })
    }

    /// A snapshot not older than a revision (LI-23, WA-13). Waits for the store to reach it too.
    async fn not_older_than(&self, wanted: Revision) -> Result<Fresh, StorageError> {
        let prefix = self.prefix();
        let deadline = Instant::now() + FRESH_WITHIN;
        let mut position = self.store.engine.known(prefix);
        while position.revision < wanted {
            if Instant::now() >= deadline {
                return Err(self.too_large(wanted, position.revision));
            }
            // Other daemons may have written what this daemon has not received yet.
            self.store.engine.request_progress(prefix, wanted);
            tokio::time::sleep(FUTURE_PACE).await;
            position = self.store.engine.known(prefix);
        }
        // The version asked for is enough. The state shown may be older than the position.
        let need = position.prefix_revision.min(wanted);
        self.reach(position, need, wanted).await
    }

    /// Waits until the snapshot shows the prefix up to a revision.
    async fn reach(
        &self,
        position: Position,
        need: Revision,
        wanted: Revision,
    ) -> Result<Fresh, StorageError> {
        let started = Instant::now();
        if self
            .cacher
            .snapshot()
            .is_none_or(|snapshot| snapshot.revision < need)
        {
            self.store.engine.request_progress(self.prefix(), need);
        }
        let epoch = self.store.engine.epoch();
        let fresh = self.cacher.fresh(epoch, need, FRESH_WITHIN).await;
        if need > Revision(0) {
            self.store.metrics.read_wait(started);
        }
        match fresh {
            Ok(snapshot) => Ok(shown(snapshot, position)),
            Err(NotFresh::Timeout { have, .. }) => Err(self.too_large(wanted, have)),
            Err(NotFresh::NotReady(_)) => Err(self.not_ready()),
        }
    }

    fn too_large(&self, requested: Revision, current: Revision) -> StorageError {
        let kind = StorageErrorKind::TooLarge {
            requested,
            current,
            retry_after: TOO_LARGE_RETRY,
        };
        self.store.fault(&self.prefix().to_string(), kind)
    }

    /// One object: from the cache where it can be recent enough, otherwise from the store. An unset
    /// version is as consistent as a read of the store, by the same wait as for lists. If the
    /// engine would have to be asked for its position, the object is read from the store instead
    /// (ST-23).
    async fn get_object(
        &self,
        request: GetRequest,
    ) -> Result<Option<Arc<CachedObject>>, StorageError> {
        let key = self.store.keys.object(&request.key)?;
        // The store answers until the cache is filled.
        self.cacher.begin_use();
        if !matches!(self.cacher.readiness(), Readiness::Ready { .. }) {
            return self.store.get(request).await;
        }
        let tells_by_itself = self.store.engine.feed_progress() == FeedProgress::Immediate;
        let fresh = match request.asked {
            Asked::Any => self.any_state(),
            Asked::At(revision) if self.is_beyond_reach(revision) => {
                return self.store.get(request).await;
            }
            Asked::At(revision) => self.not_older_than(revision).await,
            Asked::Unset if !tells_by_itself => return self.store.get(request).await,
            Asked::Unset => match self.consistent().await {
                Ok(fresh) => Ok(fresh),
                Err(_) => return self.store.get(request).await,
            },
        };
        match fresh {
            // The store answers with the error, or with a newer value.
            Ok(fresh) if fresh.snapshot.unreadable(&key).is_some() => self.store.get(request).await,
            Ok(fresh) => Ok(fresh.snapshot.get(&key).cloned()),
            Err(error) if matches!(error.kind, StorageErrorKind::NotReady { .. }) => {
                self.store.get(request).await
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a version is newer than the cache and the cache cannot be asked to catch up (LI-32).
    fn is_beyond_reach(&self, wanted: Revision) -> bool {
        let shows = self.current().map(|snapshot| snapshot.revision);
        !self.can_catch_up() && shows.is_none_or(|shows| shows < wanted)
    }

    /// Returns whether a snapshot has each write that was acknowledged. The engine is one that is
    /// always fresh, and so knows them.
    fn has_all_acknowledged(&self, snapshot: &Snapshot) -> bool {
        snapshot.revision >= self.store.engine.known(self.prefix()).prefix_revision
    }

    /// The object as the cache has it, for a write to start from (ST-44, ST-63).
    fn suggestion(&self, key: &str) -> Option<Arc<CachedObject>> {
        let key = self.store.keys.object(key).ok()?;
        self.current()?.get(&key).cloned()
    }

    async fn open_watch(&self, request: WatchRequest) -> Result<RunningWatch, StorageError> {
        let (prefix, scope) = self.store.scope(&request)?;
        self.in_use().await;
        self.published()?;
        let from = self.start_point(&request, &prefix).await?;
        let watcher = request.dispatcher.watch(WatchStart {
            cacher: self.cacher.clone(),
            engine: self.store.engine.clone(),
            decode: self.store.decoder.clone(),
            interest: WatchInterest {
                scope,
                ..request.interest
            },
            from,
            bookmarks: request.bookmarks,
            deadline: request.deadline,
        });
        Ok(RunningWatch::Dispatched(watcher))
    }

    /// Where a watch starts (the table of storage.md 3.2).
    async fn start_point(
        &self,
        request: &WatchRequest,
        prefix: &Prefix,
    ) -> Result<StartPoint, StorageError> {
        let initial = request
            .send_initial_events
            .unwrap_or(matches!(request.asked, Asked::Unset | Asked::Any));
        if !initial {
            return self.start_after(request, prefix).await;
        }
        let ends = request.bookmarks && request.send_initial_events == Some(true);
        let fresh = match (request.asked, request.send_initial_events) {
            // The cache cannot be asked to catch up, so the store is read for this client (LI-32).
            (Asked::Unset, Some(true)) if !self.can_catch_up() => {
                self.read_through(request).await?
            }
            (Asked::Unset, Some(true)) => self.consistent().await?,
            // Callers inside the daemon that do not choose get any state (WA-5).
            (Asked::Unset | Asked::Any, _) => self.any_state()?,
            (Asked::At(revision), _) if self.is_beyond_reach(revision) => {
                let fresh = self.read_through(request).await?;
                if fresh.revision < revision {
                    return Err(self.too_large(revision, fresh.revision));
                }
                fresh
            }
            (Asked::At(revision), _) => self.not_older_than(revision).await?,
        };
        self.check_readable(&fresh.snapshot, prefix, !request.recursive)?;
        Ok(StartPoint::Initial {
            snapshot: fresh.snapshot,
            end_bookmark: ends.then_some(fresh.revision),
        })
    }

    /// Refuses to show an unreadable state (PF-20, LI-16): of everything below a prefix, or of the
    /// one object at a key.
    fn check_readable(
        &self,
        snapshot: &Snapshot,
        prefix: &Prefix,
        is_one: bool,
    ) -> Result<(), StorageError> {
        let unreadable = match is_one {
            true => snapshot.unreadable(&Key::new(prefix.as_bytes())),
            false => snapshot.first_unreadable(prefix),
        };
        unreadable.map_or(Ok(()), |error| Err(self.unreadable(error)))
    }

    fn unreadable(&self, error: &DecodeError) -> StorageError {
        let kind = StorageErrorKind::Internal(error.to_string());
        self.store.fault(&error.key, kind)
    }

    async fn start_after(
        &self,
        request: &WatchRequest,
        prefix: &Prefix,
    ) -> Result<StartPoint, StorageError> {
        let after = match request.asked {
            Asked::At(revision) => revision,
            Asked::Unset => self.store.position(self.prefix()).await?.revision,
            Asked::Any => self.any_state()?.revision,
        };
        if after >= self.cacher.ring_floor() {
            return Ok(StartPoint::After(after));
        }
        check_after(after, self.store.engine.compacted())
            .map_err(|error| self.store.too_old(prefix, after, error))?;
        let (engine, decoder) = (&*self.store.engine, &*self.store.decoder);
        self.cacher.backfill(engine, decoder, after).await;
        Ok(StartPoint::After(after))
    }
}

/// The version of a snapshot. One that has reached a position shows the position's revision too.
fn shown(snapshot: Arc<Snapshot>, position: Position) -> Fresh {
    let revision = match snapshot.revision >= position.prefix_revision {
        true => snapshot.revision.max(position.revision),
        false => snapshot.revision,
    };
    Fresh { snapshot, revision }
}

impl Storage for Cached {
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>> {
        // Those who follow the cache must see the object.
        self.cacher.begin_use();
        self.store.create(key, new, origin)
    }

    fn delete<'s>(
        &'s self,
        mut request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.cacher.begin_use();
        request.suggestion = self.suggestion(&request.key);
        self.store.delete(request, validate)
    }

    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>> {
        self.store.delete_unreadable(key, origin)
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.get_object(request).boxed()
    }

    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.store.get_at(key, revision)
    }

    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>> {
        self.store.history(request)
    }

    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>> {
        self.list(request).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>> {
        self.open_watch(request).boxed_local()
    }

    fn guaranteed_update<'s>(
        &'s self,
        mut request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.cacher.begin_use();
        request.suggestion = self.suggestion(&request.key);
        self.store.guaranteed_update(request, update)
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>> {
        async move {
            if self.cacher.is_unused() {
                return self.stats_of_unused().await;
            }
            if !self.can_catch_up() {
                return self.store.stats().await;
            }
            let fresh = self.consistent().await?;
            Ok(Stats {
                object_count: fresh.snapshot.stored() as u64,
                average_object_bytes: fresh.snapshot.average_bytes(),
            })
        }
        .boxed()
    }

    fn readiness_check(&self) -> Result<(), StorageError> {
        // One that nobody uses is filled when somebody does.
        match self.cacher.is_unused() {
            true => Ok(()),
            false => self.published().map(|_| ()),
        }
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.store.current_revision()
    }

    fn known_stats(&self, prefix: &str) -> Option<Stats> {
        let Some(snapshot) = self.current() else {
            return self.store.known_stats(prefix);
        };
        let prefix = self.store.keys.below(prefix).ok()?;
        Some(Stats {
            object_count: snapshot.stored_below(&prefix),
            average_object_bytes: snapshot.average_bytes(),
        })
    }

    fn state_in_memory(&self) -> Option<Arc<Snapshot>> {
        let is_ready = matches!(self.cacher.readiness(), Readiness::Ready { .. });
        is_ready.then(|| self.current())?
    }

    fn is_known_empty(&self, prefix: &str) -> bool {
        let Some(snapshot) = self.current().filter(|_| self.is_always_fresh()) else {
            return self.is_still_empty();
        };
        let has_none = || {
            let prefix = self.store.keys.below(prefix);
            prefix.is_ok_and(|prefix| snapshot.stored_below(&prefix) == 0)
        };
        self.has_all_acknowledged(&snapshot) && (snapshot.stored() == 0 || has_none())
    }

    fn is_always_fresh(&self) -> bool {
        self.store.engine.feed_progress() == FeedProgress::Immediate
    }

    fn known_revision(&self, key: &str) -> Option<Revision> {
        let snapshot = self.current()?;
        if self.is_always_fresh() && !self.has_all_acknowledged(&snapshot) {
            return None;
        }
        let key = self.store.keys.object(key).ok()?;
        snapshot.get(&key).map(|object| object.revision)
    }

    fn held_bytes(&self, key: &str) -> usize {
        self.suggestion(key)
            .map_or(0, |object| object.item_body().len())
    }
}
