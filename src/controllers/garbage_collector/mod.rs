//! Deletes objects whose owners are gone, as Kubernetes' garbage collector does.
//!
//! A [`feed`] follows each resource, and the [`Graph`] records owners and dependents. Changes of
//! the graph make work, which waits in a [`WorkQueue`] for a bounded number of workers
//! ([`worker`]). [`verdict`] has their decisions. A gap in the graph alone deletes nothing: an
//! owner counts as absent only when a fresh read does not find it, and a deletion carries the
//! version of the object that was judged. An owner that waits for its dependents is released only
//! when every feed has read all earlier writes.
//!
//! The caches contain everything that this folder keeps in memory. So the collector may end at any
//! time, and begins again with a listing.

mod feed;
mod graph;
mod invalid_namespace;
mod metadata;
mod requests;
mod slots;
#[cfg(test)]
mod tests;
mod uid;
mod verdict;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::CacherHandle;
use actors::tasks::until_stopped;
use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::metrics::{QueueMetrics, collector_size};
use super::work_queue::{Ended, Waits, WorkQueue};
use crate::api::resource::DefaultPropagation;
use crate::api::status::Status;
use crate::registry::catalog::StoredChange;
use crate::registry::{Catalog, Registry, RegistryStore};
use feed::{Feed, NotSettled};
use graph::{Graph, Size, Task};

/// The number of concurrent workers. Concurrent commits share disk syncs.
const WORKERS: usize = 64;
/// The waits before a task that failed is retried. Kubernetes waits a thousand seconds at most. A
/// failure is nearly always an outage of the store, which ends sooner. Nothing holds a task up.
const WAITS: Waits = Waits {
    first: Duration::from_millis(5),
    most: Duration::from_secs(60),
    most_held: Duration::from_secs(60),
};
/// The time that the start waits for caches that cannot be filled.
const LISTED_WITHIN: Duration = Duration::from_secs(10);
/// The number of unused caches that it has filled at a time.
const FILLED_AT_A_TIME: usize = 8;
/// The shortest time between two warnings. A frequent failure usually affects many objects.
const WARNED_EVERY: Duration = Duration::from_secs(1);
/// The wait before a resource whose cache has ended is followed again, if it is still served.
const BACK_AFTER: Duration = Duration::from_millis(500);
/// The time that a worker waits for the feeds.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Finds the cache of a stored resource by its name, if it has one.
pub type Caches = Arc<dyn Fn(&str) -> Option<CacherHandle> + Send + Sync>;

/// The state that feeds and workers share.
pub(super) struct Collection {
    registry: Registry,
    state: Mutex<State>,
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
    /// Held by feeds that have unused caches filled.
    filling: Semaphore,
    /// Notified when work was added.
    added: Notify,
    warned: Mutex<Option<Instant>>,
    reported: Mutex<Option<Instant>>,
}

struct State {
    graph: Graph,
    queue: WorkQueue<Task>,
}

impl Collection {
    fn new(registry: Registry) -> Collection {
        Collection {
            registry,
            state: Mutex::new(State {
                graph: Graph::default(),
                queue: WorkQueue::new(WAITS),
            }),
            feeds: Mutex::default(),
            filling: Semaphore::new(FILLED_AT_A_TIME),
            added: Notify::new(),
            warned: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Changes the graph, and queues the work that follows.
    fn change<R>(&self, change: impl FnOnce(&mut Graph, &mut Vec<Task>) -> R) -> R {
        let mut work = Vec::new();
        let mut state = self.state.lock();
        let result = change(&mut state.graph, &mut work);
        let now = Instant::now();
        let had_work = !work.is_empty();
        for task in work {
            state.queue.add(task, now);
        }
        drop(state);
        if had_work {
            self.added.notify_one();
        }
        result
    }

    /// Reads something from the graph.
    fn look<R>(&self, look: impl FnOnce(&Graph) -> R) -> R {
        look(&self.state.lock().graph)
    }

    /// Waits until the graph has everything that was written before this call.
    async fn settle(&self) -> Result<(), NotSettled> {
        let catalog = self.registry.complete().await;
        let catalog = catalog.map_err(NotSettled::Unreadable)?;
        let feeds: Result<Vec<_>, NotSettled> = {
            let known = self.feeds.lock();
            let feeds = followed(&catalog).map(|store| {
                let name = &store.stored_resource().name;
                let feed = known.get(name).cloned();
                feed.ok_or_else(|| NotSettled::NotReady(name.clone()))
            });
            feeds.collect()
        };
        let feeds = feeds?;
        let settling = try_join_all(feeds.iter().map(|feed| feed.settle(self)));
        match tokio::time::timeout(SETTLED_WITHIN, settling).await {
            Ok(settled) => settled.map(|_| ()),
            Err(_) => Err(NotSettled::NotReady("some resource".to_owned())),
        }
    }

    /// Logs a failure that is retried, but at a limited rate.
    fn warn(&self, reason: &dyn std::fmt::Display, what: impl FnOnce() -> String) {
        let mut warned = self.warned.lock();
        let now = Instant::now();
        if warned.is_none_or(|at| now.duration_since(at) >= WARNED_EVERY) {
            *warned = Some(now);
            tracing::warn!(%reason, "garbage collector: {}, trying again", what());
        } else {
            tracing::debug!(%reason, "garbage collector: {}, trying again", what());
        }
    }
}

/// The garbage collector of one daemon.
pub(super) struct GarbageCollector {
    collection: Arc<Collection>,
    caches: Caches,
    generations: watch::Receiver<Arc<Catalog>>,
    /// The generation whose resources are followed.
    followed: Arc<Catalog>,
    stopped: watch::Receiver<bool>,
    /// The feeds, which end when their resource is removed.
    following: FuturesUnordered<BoxFuture<'static, String>>,
    work: FuturesUnordered<BoxFuture<'static, (Task, Ended)>>,
    deletions: QueueMetrics,
    orphans: QueueMetrics,
}

impl GarbageCollector {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        stopped: watch::Receiver<bool>,
    ) -> GarbageCollector {
        GarbageCollector {
            generations: registry.follow(),
            followed: Arc::default(),
            collection: Arc::new(Collection::new(registry)),
            caches,
            stopped,
            following: FuturesUnordered::new(),
            work: FuturesUnordered::new(),
            deletions: QueueMetrics::new("garbage_collector_attempt_to_delete"),
            orphans: QueueMetrics::new("garbage_collector_attempt_to_orphan"),
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(mut self) {
        until_stopped(self.stopped.clone(), self.collect()).await;
    }

    async fn collect(&mut self) {
        self.follow_resources();
        let begun = Instant::now();
        let mut may_work = false;
        loop {
            if !may_work {
                may_work = begun.elapsed() >= LISTED_WITHIN || self.is_listed();
                if may_work {
                    let size = self.collection.look(Graph::size);
                    let milliseconds = begun.elapsed().as_millis() as u64;
                    let (objects, owners) = (size.nodes, size.claims);
                    tracing::info!(objects, owners, milliseconds, "collecting garbage");
                }
            }
            if may_work {
                self.take_up();
            }
            let due = match may_work {
                true => self.collection.state.lock().queue.next_due(),
                false => Some(Instant::now() + Duration::from_millis(20)),
            };
            let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(30));
            let collection = Arc::clone(&self.collection);
            tokio::select! {
                Some((task, ended)) = self.work.next() => self.ended(&task, ended),
                Some(resource) = self.following.next() => self.removed(&resource),
                changed = self.generations.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.follow_resources();
                    let catalog = Arc::clone(&self.followed);
                    let is_served = |api_version: &str, kind: &str| {
                        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                        catalog.of_kind(group, version, kind).is_some()
                    };
                    self.collection
                        .change(|graph, work| graph.resources_changed(&is_served, work));
                }
                () = collection.added.notified(), if may_work => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    /// Follows the resources that are new in the current generation, and stops following those that
    /// are gone.
    fn follow_resources(&mut self) {
        let catalog = self.generations.borrow_and_update().clone();
        let is_late = self.followed.stores().next().is_some();
        let before = std::mem::replace(&mut self.followed, Arc::clone(&catalog));
        for change in catalog.stored_since(&before) {
            match change {
                StoredChange::Added(store) => self.follow(store, is_late),
                StoredChange::Removed(name) => {
                    if let Some(feed) = self.collection.feeds.lock().get(name) {
                        feed.end();
                    }
                }
            }
        }
    }

    /// Begins to follow a resource, unless it is followed already.
    fn follow(&mut self, store: &Arc<RegistryStore>, is_late: bool) {
        let name = &store.stored_resource().name;
        let mut feeds = self.collection.feeds.lock();
        if !is_followed(store) || feeds.contains_key(name) {
            return;
        }
        let feed = Arc::new(Feed::new(Arc::clone(store), (self.caches)(name), is_late));
        feeds.insert(name.clone(), Arc::clone(&feed));
        let collection = Arc::clone(&self.collection);
        let following = async move {
            let followed = async {
                feed.follow(&collection).await;
                // The generation without the resource comes at once, unless the resource was added
                // again.
                Box::pin(tokio::time::sleep(BACK_AFTER)).await;
            };
            tokio::select! {
                () = followed => {}
                () = feed.ended() => {}
            }
            feed.name().to_owned()
        };
        self.following.push(following.boxed());
    }

    /// A feed has ended.
    fn removed(&mut self, resource: &str) {
        let feed = self.collection.feeds.lock().remove(resource);
        if feed.is_some_and(|feed| feed.has_nodes()) {
            self.collection
                .change(|graph, work| graph.remove_resource(resource, work));
        }
        // A resource of the same name may have been added again.
        let catalog = Arc::clone(&self.followed);
        if let Some(store) = catalog.versions_stored_as(resource).first() {
            self.follow(store, true);
        }
    }

    fn is_listed(&self) -> bool {
        let feeds = self.collection.feeds.lock();
        feeds.values().all(|feed| feed.is_listed())
    }

    /// Starts work while there are free workers.
    fn take_up(&mut self) {
        let mut state = self.collection.state.lock();
        while self.work.len() < WORKERS
            && let Some((task, since)) = state.queue.take(Instant::now())
        {
            let waiting = state.queue.ready();
            let metrics = match task {
                Task::Orphan(_) => &mut self.orphans,
                Task::Judge(_) | Task::Verify(_) => &mut self.deletions,
            };
            metrics.added(waiting);
            metrics.begun(&name_of(&task), since, waiting);
            let collection = Arc::clone(&self.collection);
            let work = async move {
                let ended = worker::work(&collection, &task).await;
                (task, ended)
            };
            self.work.push(work.boxed());
        }
        let Size { nodes, claims } = state.graph.size();
        collector_size((nodes, claims));
    }

    fn ended(&mut self, task: &Task, ended: Ended) {
        let metrics = match task {
            Task::Orphan(_) => &mut self.orphans,
            Task::Judge(_) | Task::Verify(_) => &mut self.deletions,
        };
        metrics.ended(&name_of(task), ended == Ended::Failed);
        let mut state = self.collection.state.lock();
        state
            .queue
            .ended(task, ended, Instant::now(), random_unit());
    }
}

/// The resources whose objects can be owners and dependents: all but events.
fn followed(catalog: &Catalog) -> impl Iterator<Item = &Arc<RegistryStore>> {
    catalog
        .stored_resources()
        .filter(|store| is_followed(store))
}

fn is_followed(store: &RegistryStore) -> bool {
    store.definition().rules().propagation != DefaultPropagation::Unsupported
}

fn name_of(task: &Task) -> String {
    format!("{task:?}")
}

/// A failed request that is retried.
fn failed(collection: &Collection, status: &Status, what: impl FnOnce() -> String) -> Ended {
    collection.warn(status, what);
    Ended::Failed
}
