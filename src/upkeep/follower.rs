//! Follows the namespaces' cache: no list of its own, only what the newest picture shows.

use std::sync::Arc;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::CacherHandle;
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::emptier::{Emptier, Progress};
use super::ensure_system_namespaces;
use super::schedule::{Outcome, Schedule};
use crate::registry::Catalog;
use crate::registry::special::SYSTEM_NAMESPACES;
use crate::storage::codec::object_of;

/// Pictures may come faster than it makes sense to look at them.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// Without anything to do, and without news, it looks again after so long.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What could not be made is tried again after so long.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// Namespaces that are emptied at the same time.
const CONCURRENT_NAMESPACES: usize = 4;

/// The follower of one daemon.
pub(super) struct Follower {
    catalog: Arc<Catalog>,
    namespaces: CacherHandle,
    stopped: watch::Receiver<bool>,
    schedule: Schedule,
    /// The newest event of a namespace that was looked at.
    seen: Revision,
    /// When to look again whatever the cache shows.
    again: Instant,
}

impl Follower {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        namespaces: CacherHandle,
        stopped: watch::Receiver<bool>,
    ) -> Follower {
        Follower {
            catalog,
            namespaces,
            stopped,
            schedule: Schedule::default(),
            seen: Revision::ZERO,
            again: Instant::now(),
        }
    }

    /// Works until told to stop.
    pub(super) async fn run(mut self) {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            biased;
            // Everything below may be cut off anywhere and taken up again from the caches.
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            self.namespaces.settled().await;
            if let Some(snapshot) = self.namespaces.snapshot() {
                if self.is_news(&snapshot) {
                    self.look_at(&snapshot).await;
                }
                self.wait_for_news(&snapshot).await;
            }
            tokio::time::sleep(SHORTEST_PAUSE).await;
        }
    }

    /// Pictures come for what happens elsewhere in the store, too.
    fn is_news(&self, snapshot: &Snapshot) -> bool {
        let now = Instant::now();
        let is_due = self.schedule.next().is_some_and(|due| due <= now);
        snapshot.last_event() != self.seen || is_due || self.again <= now
    }

    async fn look_at(&mut self, snapshot: &Snapshot) {
        self.seen = snapshot.last_event();
        self.again = Instant::now() + LONGEST_PAUSE;
        let mut missing = SYSTEM_NAMESPACES.len();
        let mut due = Vec::new();
        for namespace in snapshot.range(self.namespaces.prefix(), None) {
            if SYSTEM_NAMESPACES.contains(&namespace.attributes.name.as_str()) {
                missing = missing.saturating_sub(1);
            }
            if is_terminating(namespace) {
                let uid = uid_of(namespace);
                if self.schedule.is_due(&uid, Instant::now()) {
                    due.push((uid, namespace.clone()));
                }
            }
        }
        self.schedule.forget_unseen();
        if missing > 0 {
            self.restore_system_namespaces().await;
        }
        let emptier = Emptier::new(self.catalog.clone());
        let work: Vec<_> = due
            .into_iter()
            .map(|(uid, namespace)| worked_on(emptier.clone(), uid, namespace))
            .collect();
        let mut work = stream::iter(work).buffer_unordered(CONCURRENT_NAMESPACES);
        while let Some((uid, outcome)) = work.next().await {
            self.schedule
                .ended(&uid, outcome, Instant::now(), random_unit());
        }
    }

    async fn restore_system_namespaces(&mut self) {
        match ensure_system_namespaces(&self.catalog).await {
            Ok(0) => {}
            Ok(created) => tracing::info!(created, "created missing system namespaces"),
            Err(status) => {
                tracing::warn!(%status, "can't create missing system namespaces, trying again");
                self.again = Instant::now() + PAUSE_AFTER_ERROR;
            }
        }
    }

    /// Until the cache shows something newer, or a namespace is due.
    async fn wait_for_news(&self, seen: &Snapshot) {
        let due = self
            .schedule
            .next()
            .map_or(self.again, |due| due.min(self.again));
        let pause = due.saturating_duration_since(Instant::now());
        // Running out of time is the ordinary end of it.
        let _ = self.namespaces.fresh(seen.revision.next(), pause).await;
    }
}

fn worked_on(
    emptier: Emptier,
    uid: String,
    namespace: Arc<CachedObject>,
) -> BoxFuture<'static, (String, Outcome)> {
    async move {
        let outcome = outcome_of(&emptier, &namespace).await;
        (uid, outcome)
    }
    .boxed()
}

async fn outcome_of(emptier: &Emptier, namespace: &CachedObject) -> Outcome {
    let name = namespace.attributes.name.as_str();
    match emptier.empty(namespace).await {
        Ok(Progress::Done) => Outcome::Done,
        Ok(Progress::Held { remaining, example }) => {
            tracing::debug!(namespace = name, remaining, example, "namespace is held");
            Outcome::Held
        }
        Err(status) => {
            tracing::warn!(namespace = name, %status, "can't empty a namespace, trying again");
            Outcome::Failed
        }
    }
}

/// By `status.phase`, which namespaces are selected by and which the cache therefore knows.
fn is_terminating(namespace: &CachedObject) -> bool {
    namespace
        .attributes
        .fields
        .iter()
        .any(|field| field == "Terminating")
}

fn uid_of(namespace: &CachedObject) -> String {
    object_of(namespace)
        .map(|object| object.uid().to_owned())
        .unwrap_or_default()
}
