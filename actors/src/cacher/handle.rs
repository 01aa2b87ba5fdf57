//! The handle to a Cacher that the rest of the daemon uses.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::first_use::FirstUse;
use super::follower::CacheFollower;
use super::readiness::{NotReady, Readiness};
use super::watch_cache::WatchCache;
use crate::engine::{Prefix, Revision};
use crate::snapshot::Snapshot;

/// A resource's cache, as readers see it. It outlives restarts of the Cacher. Reads never wait for
/// a mailbox.
#[derive(Clone)]
pub struct CacherHandle {
    pub(crate) watch_cache: Arc<WatchCache>,
    /// `None` for a cache that is filled from the beginning.
    pub(crate) first_use: Option<Arc<FirstUse>>,
}

/// Why there is no snapshot that is new enough.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotFresh {
    /// The cache did not reach the revision in time (ST-13, WA-12).
    #[error("the cache is at revision {have} and did not reach {wanted} in time")]
    Timeout {
        /// The revision it has reached.
        have: Revision,
        /// The revision asked for.
        wanted: Revision,
    },
    /// The cache is filling or stopped (WC-42).
    #[error(transparent)]
    NotReady(#[from] NotReady),
}

impl CacherHandle {
    /// The resource's name: `configmaps`, `deployments.apps`.
    pub fn resource(&self) -> &str {
        &self.watch_cache.resource
    }

    /// The physical prefix of its keys, with a closing slash.
    pub fn prefix(&self) -> &Prefix {
        &self.watch_cache.prefix
    }

    /// The newest snapshot; `None` while the cache is not ready.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.watch_cache.snapshot()
    }

    /// Whether the cache serves, and if not, why.
    pub fn readiness(&self) -> Readiness {
        self.watch_cache.readiness_now()
    }

    /// Whether nobody has used the cache yet, so that it holds nothing and no actor fills it.
    pub fn is_unused(&self) -> bool {
        self.first_use
            .as_ref()
            .is_some_and(|first_use| !first_use.has_begun())
    }

    /// Has the cache filled, if nobody has used it yet. Does not wait.
    pub fn begin_use(&self) {
        if let Some(first_use) = &self.first_use {
            first_use.begin();
        }
    }

    /// Has the cache filled, and waits until it was filled once, or stopped, at most for this time.
    pub async fn in_use(&self, within: Duration) {
        let Some(first_use) = &self.first_use else {
            return;
        };
        if first_use.is_over() {
            return;
        }
        first_use.begin();
        // A cache that takes longer reports its own state.
        let _ = tokio::time::timeout(within, self.settled()).await;
        first_use.end();
    }

    /// Waits until the cache is ready or stopped.
    pub async fn settled(&self) -> Readiness {
        let mut readiness = self.watch_cache.readiness();
        let settled = readiness
            .wait_for(|readiness| !matches!(readiness, Readiness::Pending { .. }))
            .await;
        settled.map_or(Readiness::Stopped, |readiness| readiness.clone())
    }

    /// A snapshot of this epoch that shows everything up to the revision (WA-12, WC-30).
    ///
    /// # Errors
    /// [`NotFresh::NotReady`] at once if the cache is not ready, [`NotFresh::Timeout`] if it does
    /// not reach the revision in time.
    pub async fn fresh(
        &self,
        epoch: u64,
        at_least: Revision,
        within: Duration,
    ) -> Result<Arc<Snapshot>, NotFresh> {
        let is_fresh =
            |snapshot: &Snapshot| snapshot.epoch == epoch && snapshot.revision >= at_least;
        if let Some(snapshot) = self.snapshot()
            && is_fresh(&snapshot)
        {
            return Ok(snapshot);
        }
        let deadline = Instant::now() + within;
        let mut news = self.watch_cache.readiness();
        loop {
            news.mark_unchanged();
            let snapshot = self.snapshot().ok_or_else(|| self.not_ready())?;
            if is_fresh(&snapshot) {
                return Ok(snapshot);
            }
            if tokio::time::timeout_at(deadline, news.changed())
                .await
                .is_err()
            {
                return Err(NotFresh::Timeout {
                    have: snapshot.revision,
                    wanted: at_least,
                });
            }
        }
    }

    /// Waits until snapshot and ring show everything up to a revision. Returns whether they do
    /// within this time. A cache that has stopped never does.
    pub async fn reached(&self, revision: Revision, within: Duration) -> bool {
        let mut news = self.watch_cache.readiness();
        let reached = async {
            loop {
                news.mark_unchanged();
                if self.watch_cache.newest() >= revision {
                    return true;
                }
                if *news.borrow() == Readiness::Stopped {
                    return false;
                }
                if news.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(within, reached).await.unwrap_or(false)
    }

    /// The ring serves watches after this revision or a later one, without history (WA-30: the
    /// oldest usable version of a store that keeps no history).
    pub fn ring_floor(&self) -> Revision {
        self.watch_cache.ring_floor()
    }

    /// Ends all watches. The content stays, so that they can resume without a gap.
    pub fn end_watches(&self) {
        self.watch_cache.end_watchers();
    }

    /// A reader of all changes, from the current state on.
    pub fn follow(&self) -> CacheFollower {
        CacheFollower::new(Arc::clone(&self.watch_cache))
    }

    /// Why there was no snapshot a moment ago.
    fn not_ready(&self) -> NotReady {
        let readiness = match self.readiness() {
            // Snapshot and readiness do not change at the same moment: the snapshot is first.
            Readiness::Ready { .. } => Readiness::Pending {
                since: std::time::Instant::now(),
                last_error: None,
            },
            readiness => readiness,
        };
        NotReady {
            resource: self.watch_cache.resource.clone(),
            readiness,
        }
    }
}

impl std::fmt::Debug for CacherHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacherHandle")
            .field("resource", &self.watch_cache.resource)
            .field("readiness", &self.readiness())
            .finish()
    }
}
