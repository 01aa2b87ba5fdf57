//! Follows the namespaces in the snapshots of their cache, without a list of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::CacherHandle;
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::QueueMetrics;
use super::namespaced_resources_deleter::{NamespacedResourcesDeleter, Progress};
use super::work_queue::{Outcome, WorkQueue};
use super::{ensure_system_namespaces, until_stopped};
use crate::kinds::special::SYSTEM_NAMESPACES;
use crate::registry::Registry;
use crate::storage::codec::object_of;

/// The minimum time between two checks. Snapshots may come faster.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The maximum time between two checks when there is no work and no change.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The wait before a failed creation is retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The number of namespaces that are emptied concurrently.
const CONCURRENT_NAMESPACES: usize = 4;

/// The controller of one daemon.
pub(super) struct NamespaceController {
    registry: Registry,
    namespaces: CacherHandle,
    stopped: watch::Receiver<bool>,
    /// Whether deleted namespaces are emptied.
    empties: bool,
    schedule: WorkQueue,
    /// Namespaces that are being emptied.
    work: FuturesUnordered<BoxFuture<'static, (String, Outcome)>>,
    /// Namespaces that wait for a free slot.
    waiting: VecDeque<Waiting>,
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

/// A namespace that waits for a free slot.
struct Waiting {
    uid: String,
    namespace: Arc<CachedObject>,
    since: Instant,
}

impl NamespaceController {
    /// A controller that empties namespaces this long after their deletion, or never if another
    /// one does.
    pub(super) fn new(
        registry: Registry,
        namespaces: CacherHandle,
        grace: Option<Duration>,
        stopped: watch::Receiver<bool>,
    ) -> NamespaceController {
        NamespaceController {
            registry,
            namespaces,
            stopped,
            empties: grace.is_some(),
            schedule: WorkQueue::new(grace.unwrap_or_default()),
            work: FuturesUnordered::new(),
            waiting: VecDeque::new(),
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
            let due = self.schedule.next();
            let until = due.map_or(self.again, |due| due.min(self.again));
            let earliest = self.looked + SHORTEST_PAUSE;
            tokio::select! {
                Some((uid, outcome)) = self.work.next() => {
                    let is_tried_again = matches!(outcome, Outcome::Failed | Outcome::Unfinished);
                    self.metrics.ended(&uid, is_tried_again);
                    self.schedule.ended(&uid, outcome, Instant::now(), random_unit());
                    self.take_up();
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
        }
    }

    /// Whether a snapshot has new namespace events. Snapshots also change for events of other
    /// resources.
    fn is_news(&self, snapshot: &Snapshot) -> bool {
        let now = Instant::now();
        let is_due = self.schedule.next().is_some_and(|due| due <= now);
        snapshot.last_event() != self.seen || is_due || self.again <= now
    }

    async fn look_at(&mut self, snapshot: &Snapshot) {
        self.seen = snapshot.last_event();
        self.again = Instant::now() + LONGEST_PAUSE;
        let mut missing = SYSTEM_NAMESPACES.len();
        // Unreadable namespaces are reported by the actor system and skipped here.
        for namespace in snapshot.range(self.namespaces.prefix(), None).flatten() {
            if SYSTEM_NAMESPACES.contains(&namespace.attributes().name()) {
                missing = missing.saturating_sub(1);
            }
            if self.empties && is_terminating(namespace) {
                let uid = uid_of(namespace);
                if self.schedule.is_due(&uid, Instant::now()) {
                    self.schedule.begun(&uid);
                    self.waiting.push_back(Waiting {
                        uid,
                        namespace: namespace.clone(),
                        since: Instant::now(),
                    });
                    self.metrics.added(self.waiting.len());
                }
            }
        }
        self.schedule.forget_unseen();
        if missing > 0 {
            self.restore_system_namespaces().await;
        }
        self.take_up();
    }

    /// Starts waiting namespaces while there are free slots.
    fn take_up(&mut self) {
        while self.work.len() < CONCURRENT_NAMESPACES
            && let Some(next) = self.waiting.pop_front()
        {
            let Waiting {
                uid,
                namespace,
                since,
            } = next;
            self.metrics.begun(&uid, since, self.waiting.len());
            let deleter = NamespacedResourcesDeleter::new(self.registry.clone());
            self.work.push(worked_on(deleter, uid, namespace));
        }
    }

    async fn restore_system_namespaces(&mut self) {
        match ensure_system_namespaces(&self.registry).await {
            Ok(0) => {}
            Ok(created) => tracing::info!(created, "created missing system namespaces"),
            Err(status) => {
                tracing::warn!(%status, "can't create missing system namespaces, trying again");
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
) -> BoxFuture<'static, (String, Outcome)> {
    async move {
        let outcome = outcome_of(&deleter, &namespace).await;
        (uid, outcome)
    }
    .boxed()
}

async fn outcome_of(deleter: &NamespacedResourcesDeleter, namespace: &CachedObject) -> Outcome {
    let name = namespace.attributes().name();
    match deleter.empty(namespace).await {
        Ok(Progress::Done) => Outcome::Done,
        Ok(Progress::Held(remaining)) => {
            tracing::debug!(namespace = name, ?remaining, "namespace is held");
            Outcome::Held
        }
        Ok(Progress::Unfinished) => {
            tracing::debug!(
                namespace = name,
                "namespace is large, going on with it later"
            );
            Outcome::Unfinished
        }
        Err(status) => {
            tracing::warn!(namespace = name, %status, "can't empty a namespace, trying again");
            Outcome::Failed
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
