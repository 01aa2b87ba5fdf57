//! Follows one resource and reports its changes to the graph: from its watch cache, or by listing
//! it again and again if it has none.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use actors::ring::RingEvent;
use actors::snapshot::Snapshot;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::Collection;
use super::graph::{Graph, Seen, Task};
use super::metadata::{Metadata, may_concern};
use super::uid::Uid;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::registry::{Catalog, RegistryStore};
use crate::storage::StoredResource;

/// The objects that are read before other tasks run.
const PIECE: usize = 500;
/// The wait after events of owners or dependents, so that many events are read at once.
const PAUSE: Duration = Duration::from_millis(10);
/// The wait after other events, of which some resources have many.
const LONG_PAUSE: Duration = Duration::from_millis(100);
/// How long the first fill of a cache is waited for.
const FILLED_WITHIN: Duration = Duration::from_secs(10);
/// The shortest time between two listings of a resource without a watch cache.
const LISTED_EVERY: Duration = Duration::from_secs(5);
/// Listings take at most one part in this many of the time.
const LISTING_SHARE: u32 = 20;

/// One resource.
pub(super) struct Feed {
    store: Arc<RegistryStore>,
    cache: Option<CacherHandle>,
    /// How far the cache was read.
    reading: Mutex<Option<CacheFollower>>,
    /// Whether the graph knows the whole state.
    is_listed: AtomicBool,
    /// Whether the graph may know its objects from before, and miss deletions since then.
    is_late: bool,
    /// Whether the graph has heard of any of its objects.
    has_nodes: AtomicBool,
    /// Notified when it is no longer served.
    ended: Notify,
}

/// The state of a feed after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pumped {
    /// Everything was read, and some events may be of owners or dependents.
    News,
    /// Everything was read. None of it concerns owners or dependents.
    NoNews,
    /// The cache is being filled.
    Filling,
    /// The resource was removed.
    Stopped,
}

/// Why a feed is not up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSettled {
    /// The cache is being filled, or the resource was removed.
    #[error("the cache of {0} is not ready")]
    NotReady(String),
    /// The resource cannot be read.
    #[error("{0}")]
    Unreadable(Box<Status>),
}

impl Feed {
    /// Creates the feed of a resource. It is late if other resources were followed before.
    pub(super) fn new(
        store: Arc<RegistryStore>,
        cache: Option<CacherHandle>,
        is_late: bool,
    ) -> Feed {
        let follower = cache.as_ref().map(CacherHandle::follow);
        Feed {
            store,
            cache,
            reading: Mutex::new(follower),
            is_listed: AtomicBool::new(false),
            is_late,
            has_nodes: AtomicBool::new(false),
            ended: Notify::new(),
        }
    }

    /// Wakes the caller of [`Feed::ended`].
    pub(super) fn end(&self) {
        self.ended.notify_one();
    }

    /// Waits until it is no longer served.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns whether the graph may have nodes of its objects.
    pub(super) fn has_nodes(&self) -> bool {
        self.has_nodes.load(Ordering::Relaxed)
    }

    fn resource(&self) -> &StoredResource {
        self.store.stored_resource()
    }

    /// The name of the stored resource.
    pub(super) fn name(&self) -> &str {
        &self.resource().name
    }

    /// Whether the graph knows the whole state.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::Relaxed)
    }

    /// Has the cache filled if nobody has used it but there are objects, which may be owners or
    /// dependents. Returns false if it has no objects. A request that creates one uses the cache.
    async fn use_cache(&self, collection: &Collection) -> bool {
        let Some(cache) = self.cache.as_ref().filter(|cache| cache.is_unused()) else {
            return true;
        };
        let stats = self.store.storage().stats().await;
        if stats.is_ok_and(|stats| stats.object_count == 0) {
            self.is_listed.store(true, Ordering::Relaxed);
            return false;
        }
        // At a restart there may be many.
        let _permit = collection.filling.acquire().await;
        cache.in_use(FILLED_WITHIN).await;
        true
    }

    /// Reads until the resource is removed.
    pub(super) async fn follow(&self, collection: &Collection) {
        Box::pin(self.use_cache(collection)).await;
        loop {
            let mut reading = self.reading.lock().await;
            let wait = match &mut *reading {
                // Rare work is boxed, so that it takes no memory meanwhile.
                Some(follower) => match Box::pin(self.pump(follower, collection)).await {
                    Pumped::Stopped => return,
                    Pumped::News | Pumped::Filling => PAUSE,
                    Pumped::NoNews => LONG_PAUSE,
                },
                None => {
                    let began = Instant::now();
                    if let Err(status) = Box::pin(self.list(collection)).await {
                        collection.warn(&status, || format!("can't list {}", self.name()));
                    }
                    LISTED_EVERY.max(began.elapsed() * LISTING_SHARE)
                }
            };
            let changed = reading.as_ref().map(CacheFollower::changed);
            drop(reading);
            if let Some(changed) = changed {
                changed.await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Reads everything that was written before this call.
    ///
    /// # Errors
    /// [`NotSettled`]. The graph may then lack existing objects.
    pub(super) async fn settle(&self, collection: &Collection) -> Result<(), NotSettled> {
        let Some(cache) = &self.cache else {
            let _reading = self.reading.lock().await;
            return self.list(collection).await.map_err(NotSettled::Unreadable);
        };
        if !self.use_cache(collection).await {
            return Ok(());
        }
        // The first fill may still be under way.
        cache.in_use(FILLED_WITHIN).await;
        let not_ready = || NotSettled::NotReady(self.name().to_owned());
        // A consistent read: afterwards the cache shows everything that was written before it. With
        // an etcd that reports no progress on request, the cache may lag.
        let stats = self.store.storage().stats().await;
        stats.map_err(|_| not_ready())?;
        let wanted = cache.snapshot().ok_or_else(not_ready)?.revision;
        loop {
            let mut reading = self.reading.lock().await;
            let follower = reading.as_mut().ok_or_else(not_ready)?;
            match self.pump(follower, collection).await {
                Pumped::News | Pumped::NoNews => {}
                Pumped::Filling | Pumped::Stopped => return Err(not_ready()),
            }
            if follower.reached().is_some_and(|reached| reached >= wanted) {
                return Ok(());
            }
            let changed = follower.changed();
            drop(reading);
            changed.await;
        }
    }

    /// Applies the news of the cache.
    async fn pump(&self, follower: &mut CacheFollower, collection: &Collection) -> Pumped {
        let mut up_to_date = Pumped::NoNews;
        loop {
            match follower.read() {
                CacheNews::Nothing => return up_to_date,
                CacheNews::Filling => return Pumped::Filling,
                CacheNews::Stopped => return Pumped::Stopped,
                CacheNews::State(snapshot) => {
                    self.apply_state(&snapshot, collection).await;
                    up_to_date = Pumped::News;
                }
                CacheNews::Events(events) => {
                    if self.apply_events(&events, collection) {
                        up_to_date = Pumped::News;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Whether any of the events may be of an owner or a dependent.
    fn apply_events(&self, events: &[Arc<RingEvent>], collection: &Collection) -> bool {
        let mut events = events.iter().filter(|event| concerns(event)).peekable();
        let has_news = events.peek().is_some();
        if has_news {
            collection.change(|graph, work| {
                events.for_each(|event| self.apply(event, graph, work));
            });
        }
        has_news
    }

    async fn apply_state(&self, snapshot: &Snapshot, collection: &Collection) {
        let Some(cache) = &self.cache else {
            return;
        };
        let mut listing = Listing::begin(self, collection);
        // Objects that can't be read still count as owners, but not as dependents.
        let mut objects = snapshot.range(cache.prefix(), None).flatten().peekable();
        while objects.peek().is_some() {
            listing.put(objects.by_ref().take(PIECE), collection);
            tokio::task::yield_now().await;
        }
        listing.end(collection);
    }

    /// Lists the whole resource, page by page.
    async fn list(&self, collection: &Collection) -> Result<(), Box<Status>> {
        let mut listing = Listing::begin(self, collection);
        let mut options = ListOptions {
            limit: PIECE,
            ..ListOptions::default()
        };
        loop {
            let everything = Arc::new(Selection::default());
            let page = self.store.list(None, &options, everything).await?;
            listing.put(page.items.iter(), collection);
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => break,
            }
        }
        listing.end(collection);
        Ok(())
    }

    fn apply(&self, event: &RingEvent, graph: &mut Graph, work: &mut Vec<Task>) {
        match (&event.current, &event.previous) {
            (Some(current), _) => self.put(current, graph, work),
            (None, Some(previous)) => {
                if let Some(metadata) = Metadata::of(previous) {
                    graph.deleted(&metadata.uid, work);
                }
            }
            (None, None) => {}
        }
    }

    fn put(&self, object: &CachedObject, graph: &mut Graph, work: &mut Vec<Task>) {
        let attributes = object.attributes();
        let place = (self.name(), attributes.namespace(), attributes.name());
        if let Some(metadata) = Metadata::of(object) {
            self.has_nodes.store(true, Ordering::Relaxed);
            graph.put(place, &metadata, work);
        }
    }

    /// Whether objects of this type are stored here. Versions may be added while it is followed, so
    /// the generation decides.
    pub(super) fn is_kind(&self, catalog: &Catalog, api_version: &str, kind: &str) -> bool {
        let versions = catalog.versions_stored_as(self.name()).iter();
        let mut types = versions.map(|store| store.definition());
        types.any(|row| row.kind == kind && row.api_version() == api_version)
    }

    /// Its watch cache.
    pub(super) fn cache(&self) -> Option<&CacherHandle> {
        self.cache.as_ref()
    }
}

/// Returns whether an event may be of an owner or a dependent. Most changes are of objects that
/// have no owners and had none. A deleted object may have been an owner.
fn concerns(event: &RingEvent) -> bool {
    let may_concern = |object: &Option<Arc<CachedObject>>| {
        let object = object.as_ref();
        object.is_some_and(|object| may_concern(object))
    };
    event.current.is_none() || may_concern(&event.current) || may_concern(&event.previous)
}

/// A listing of a resource in progress.
struct Listing<'f> {
    feed: &'f Feed,
    began: u32,
    /// The owners that were seen, unless the graph knows none of them yet.
    seen: Option<HashSet<Uid>>,
}

impl<'f> Listing<'f> {
    fn begin(feed: &'f Feed, collection: &Collection) -> Listing<'f> {
        Listing {
            feed,
            began: collection.change(|graph, _| graph.begin_listing()),
            seen: (feed.is_late || feed.is_listed()).then(HashSet::new),
        }
    }

    fn put<'o>(
        &mut self,
        objects: impl Iterator<Item = &'o Arc<CachedObject>>,
        collection: &Collection,
    ) {
        collection.change(|graph, work| {
            for object in objects {
                if may_concern(object) {
                    self.feed.put(object, graph, work);
                }
                if let Some(seen) = &mut self.seen
                    && let Some(metadata) = Metadata::of(object)
                {
                    let uid = Uid::of(&metadata.uid);
                    if graph.is_claimed(&uid) {
                        seen.insert(uid);
                    }
                }
            }
        });
    }

    fn end(self, collection: &Collection) {
        let Listing { feed, began, seen } = self;
        let catalog = collection.registry.current();
        let is_kind = |api_version: &str, kind: &str| feed.is_kind(&catalog, api_version, kind);
        let seen = seen.map(|owners| Seen {
            owners,
            is_kind: &is_kind,
        });
        // Otherwise the graph has nothing that the listing could have missed.
        if seen.is_some() || feed.has_nodes() {
            collection.change(|graph, work| graph.end_listing(feed.name(), began, seen, work));
        }
        feed.is_listed.store(true, Ordering::Relaxed);
    }
}
