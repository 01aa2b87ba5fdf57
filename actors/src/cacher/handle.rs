//! What the rest of the daemon holds of a Cacher.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::readiness::{NotReady, Readiness};
use super::shared::Shared;
use crate::engine::{Prefix, Revision};
use crate::snapshot::Snapshot;

/// A resource's cache, as readers see it. It survives restarts of the actor behind it; reads
/// never enter a mailbox.
#[derive(Clone)]
pub struct CacherHandle {
    pub(crate) shared: Arc<Shared>,
}

/// A cache that does not hold what was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotFresh {
    /// It did not get that far in time (ST-13, WA-12).
    #[error("the cache is at revision {have} and did not reach {wanted} in time")]
    Timeout {
        /// The revision it has reached.
        have: Revision,
        /// The revision asked for.
        wanted: Revision,
    },
    /// It is filling (WC-42).
    #[error(transparent)]
    NotReady(#[from] NotReady),
}

impl CacherHandle {
    /// The resource's name: `configmaps`, `deployments.apps`.
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// The physical prefix of its keys, with a closing slash.
    pub fn prefix(&self) -> &Prefix {
        &self.shared.prefix
    }

    /// The newest published picture; `None` while not ready.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.shared.snapshot()
    }

    /// Whether the cache serves, and if not, why.
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness_now()
    }

    /// Waits until the cache serves; comes back at once when it does or never will.
    pub async fn settled(&self) -> Readiness {
        let mut readiness = self.shared.readiness();
        let settled = readiness
            .wait_for(|readiness| !matches!(readiness, Readiness::Pending { .. }))
            .await;
        settled.map_or(Readiness::Stopped, |readiness| readiness.clone())
    }

    /// A picture that holds everything up to the revision of this epoch (WA-12, WC-30).
    ///
    /// # Errors
    /// [`NotFresh::NotReady`] at once when the cache is filling, [`NotFresh::Timeout`] when it
    /// does not get there in time.
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
        let mut revision = self.shared.revision();
        loop {
            revision.mark_unchanged();
            let snapshot = self.snapshot().ok_or_else(|| self.not_ready())?;
            if is_fresh(&snapshot) {
                return Ok(snapshot);
            }
            if tokio::time::timeout_at(deadline, revision.changed())
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

    /// A watch after this revision, or a later one, is served by the ring without the store's
    /// history (WA-30: the oldest usable version of a store that keeps none).
    pub fn ring_floor(&self) -> Revision {
        self.shared.ring_floor()
    }

    /// Why there was no snapshot a moment ago.
    fn not_ready(&self) -> NotReady {
        let readiness = match self.readiness() {
            // The snapshot goes a moment before the readiness, and comes a moment before it.
            Readiness::Ready { .. } => Readiness::Pending {
                since: std::time::Instant::now(),
                last_error: None,
            },
            readiness => readiness,
        };
        NotReady {
            resource: self.shared.resource.clone(),
            readiness,
        }
    }
}

impl std::fmt::Debug for CacherHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacherHandle")
            .field("resource", &self.shared.resource)
            .field("readiness", &self.readiness())
            .finish()
    }
}
