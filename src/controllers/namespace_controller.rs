//! Follows the namespaces in the snapshots of their cache, without a list of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::CacherHandle;
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use actors::tasks::until_stopped;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::ensure_system_namespaces;
use super::extensions::{ExtensionContent, Extensions};
use super::metrics::QueueMetrics;
use super::namespaced_resources_deleter::{NamespacedResourcesDeleter, Progress};
use super::work_queue::{Ended, Waits, WorkQueue};
use crate::kinds::strategies::SYSTEM_NAMESPACES;
use crate::registry::Registry;
use crate::storage::codec::object_of;

/// The minimum time between two checks. Snapshots may come faster.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The maximum time between two checks when there is no work and no change.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The wait before a failed creation is retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The waits before the emptying of a namespace is tried again. A namespace that something holds
/// up, such as a finalizer, is checked again soon, because its client waits.
const WAITS: Waits = Waits {
    first: Duration::from_millis(50),
    most: Duration::from_secs(30),
    most_held: Duration::from_secs(2),
};
/// The number of namespaces that are emptied or wait for extensions concurrently.
const CONCURRENT_NAMESPACES: usize = 64;

/// The controller of one daemon.
pub(super) struct NamespaceController {
    registry: Registry,
    deleter: NamespacedResourcesDeleter,
    namespaces: CacherHandle,
    stopped: watch::Receiver<bool>,
    /// How long after their deletion namespaces are emptied. `None` if they are not.
    grace: Option<Duration>,
    /// Terminating namespaces, by uid. A new namespace of the same name therefore does not inherit
    /// the wait of the old one.
    queue: WorkQueue<String>,
    /// The terminating namespaces of the last check, by uid.
    terminating: HashMap<String, Arc<CachedObject>>,
    /// The content of terminating namespaces at extensions, by uid.
    elsewhere: HashMap<String, ExtensionContent>,
    /// Namespaces that are being emptied.
    work: FuturesUnordered<BoxFuture<'static, Worked>>,
    metrics: QueueMetrics,
    /// The newest namespace event that was processed.
    seen: Revision,
    /// The epoch and the revision of the snapshot that was processed last.
    picture: Option<(u64, Revision)>,
    /// The time of the last check.
    looked: Instant,
    /// The time of the next check, even without a change.
    again: Instant,
}

/// The uid of a namespace after work on it, with its content at extensions.
type Worked = (String, Ended, ExtensionContent);

impl NamespaceController {
    /// A controller that empties namespaces, also at extensions, this long after their deletion, or
    /// never if another component does it.
    pub(super) fn new(
        registry: Registry,
        extensions: Option<Arc<dyn Extensions>>,
        namespaces: CacherHandle,
        grace: Option<Duration>,
        stopped: watch::Receiver<bool>,
    ) -> NamespaceController {
        NamespaceController {
            deleter: NamespacedResourcesDeleter::new(registry.clone(), extensions),
            registry,
            namespaces,
            stopped,
            grace,
            queue: WorkQueue::new(WAITS),
            terminating: HashMap::new(),
            elsewhere: HashMap::new(),
            work: FuturesUnordered::new(),
            metrics: QueueMetrics::new("namespace"),
            seen: Revision::ZERO,
            picture: None,
            looked: Instant::now(),
            again: Instant::now(),
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(mut self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    /// Checks for changes and empties namespaces concurrently, so that a slow namespace delays no
    /// other.
    async fn follow(&mut self) {
        loop {
            let due = self.queue.next_due();
            let until = due.map_or(self.again, |due| due.min(self.again));
            let earliest = self.looked + SHORTEST_PAUSE;
            tokio::select! {
                Some((uid, ended, elsewhere)) = self.work.next() => {
                    self.metrics.ended(&uid, matches!(ended, Ended::Failed | Ended::GoesOn));
                    self.queue.ended(&uid, ended, Instant::now(), random_unit());
                    if self.terminating.contains_key(&uid) {
                        self.elsewhere.insert(uid, elsewhere);
                    }
                }
                () = news(self.namespaces.clone(), self.picture, earliest, until) => {
                    self.looked = Instant::now();
                    self.metrics.look();
                    let snapshot = self.namespaces.snapshot();
                    self.picture = snapshot
                        .as_ref()
                        .map(|snapshot| (snapshot.epoch, snapshot.revision));
                    if let Some(snapshot) = snapshot && self.is_news(&snapshot) {
                        self.look_at(&snapshot).await;
                    }
                }
            }
            self.take_up();
        }
    }

    /// Whether a snapshot has new namespace events. Snapshots also change for events of other
    /// resources.
    fn is_news(&self, snapshot: &Snapshot) -> bool {
        let now = Instant::now();
        snapshot.last_event() != self.seen || self.again <= now
    }

    async fn look_at(&mut self, snapshot: &Snapshot) {
        self.seen = snapshot.last_event();
        self.again = Instant::now() + LONGEST_PAUSE;
        let mut missing = SYSTEM_NAMESPACES.len();
        self.terminating.clear();
        // Unreadable namespaces are reported by the actor system and skipped here.
        for namespace in snapshot.range(self.namespaces.prefix(), None).flatten() {
            if SYSTEM_NAMESPACES.contains(&namespace.attributes().name()) {
                missing = missing.saturating_sub(1);
            }
            if let Some(grace) = self.grace
                && is_terminating(namespace)
            {
                let uid = uid_of(namespace);
                if self.queue.add_at(&uid, Instant::now() + grace) {
                    self.metrics.added(self.queue.ready());
                }
                self.terminating.insert(uid, namespace.clone());
            }
        }
        let terminating = &self.terminating;
        self.queue.retain(|uid| terminating.contains_key(uid));
        self.elsewhere
            .retain(|uid, _| terminating.contains_key(uid));
        if missing > 0 {
            self.restore_system_namespaces().await;
        }
    }

    /// Starts to empty namespaces that are due while there are free slots.
    fn take_up(&mut self) {
        while self.work.len() < CONCURRENT_NAMESPACES
            && let Some((uid, since)) = self.queue.take(Instant::now())
        {
            let Some(namespace) = self.terminating.get(&uid) else {
                self.queue.ended(&uid, Ended::Done, Instant::now(), 0.0);
                continue;
            };
            self.metrics.begun(&uid, since, self.queue.ready());
            let (deleter, namespace) = (self.deleter.clone(), namespace.clone());
            let elsewhere = self.elsewhere.remove(&uid).unwrap_or_default();
            self.work
                .push(worked_on(deleter, uid, namespace, elsewhere));
        }
    }

    async fn restore_system_namespaces(&mut self) {
        match ensure_system_namespaces(&self.registry).await {
            Ok(0) => {}
            Ok(created) => tracing::info!(created, "created missing system namespaces"),
            Err(status) => {
                tracing::warn!(%status, "creating missing system namespaces failed, retrying");
                self.again = Instant::now() + PAUSE_AFTER_ERROR;
            }
        }
    }
}

/// Waits until the cache has a newer snapshot, or until `pause` has passed.
async fn news(
    namespaces: CacherHandle,
    picture: Option<(u64, Revision)>,
    earliest: Instant,
    until: Instant,
) {
    tokio::time::sleep_until(earliest).await;
    namespaces.settled().await;
    let now = namespaces.snapshot().map(|snapshot| snapshot.epoch);
    if let Some((epoch, revision)) = picture
        && now == Some(epoch)
    {
        let pause = until.saturating_duration_since(Instant::now());
        // A timeout is the normal case.
        let _ = namespaces.fresh(epoch, revision.next(), pause).await;
    }
}

fn worked_on(
    deleter: NamespacedResourcesDeleter,
    uid: String,
    namespace: Arc<CachedObject>,
    mut elsewhere: ExtensionContent,
) -> BoxFuture<'static, Worked> {
    async move {
        let ended = empty(&deleter, &namespace, &mut elsewhere).await;
        (uid, ended, elsewhere)
    }
    .boxed()
}

async fn empty(
    deleter: &NamespacedResourcesDeleter,
    namespace: &CachedObject,
    elsewhere: &mut ExtensionContent,
) -> Ended {
    let name = namespace.attributes().name();
    match deleter.empty(namespace, elsewhere).await {
        // If the next check finds it again, the cache lags or something else holds it up.
        Ok(Progress::Done) => Ended::Held,
        Ok(Progress::Held(remaining)) => {
            tracing::debug!(namespace = name, ?remaining, "namespace is held");
            Ended::Held
        }
        // Extensions get longer and longer pauses.
        Ok(Progress::HeldByExtensions(remaining)) => {
            tracing::debug!(namespace = name, ?remaining, "extensions hold a namespace");
            Ended::Failed
        }
        Ok(Progress::Unfinished) => {
            tracing::debug!(namespace = name, "namespace is large, continuing later");
            Ended::GoesOn
        }
        Err(status) => {
            tracing::warn!(namespace = name, %status, "emptying a namespace failed, retrying");
            Ended::Failed
        }
    }
}

/// Checks `status.phase`, which the cache knows because it is a selectable field.
fn is_terminating(namespace: &CachedObject) -> bool {
    let mut fields = namespace.attributes().fields();
    fields.any(|field| field == "Terminating")
}

fn uid_of(namespace: &CachedObject) -> String {
    object_of(namespace)
        .map(|object| object.uid().to_owned())
        .unwrap_or_default()
}
