//! The Compactor, as the rest of the daemon sees it.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Compactor;
use super::messages::CompactNow;
use super::round::Reclaim;
use crate::actor_ref::ActorRef;
use crate::engine::{EngineError, Revision};

/// Where to ask for a compaction now.
#[derive(Clone)]
pub struct CompactorHandle {
    pub(crate) actor_ref: Arc<ActorRef<Compactor>>,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// The newest revision that is compacted now.
    pub compacted: Revision,
    /// Records removed.
    pub removed: u64,
    /// Bytes given back to the file system.
    pub reclaimed_bytes: u64,
}

/// A compaction that was asked for and not done, or not done to the end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompactError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The Compactor died or stopped meanwhile.
    #[error("the compactor went away")]
    Gone,
}

impl CompactorHandle {
    /// Forgets now what retention no longer wants and, with `reclaim`, gives the space back.
    /// Waits until that is done, however long it takes.
    ///
    /// # Errors
    /// [`CompactError`]
    pub async fn compact_now(&self, reclaim: bool) -> Result<CompactReport, CompactError> {
        let reclaim = match reclaim {
            true => Reclaim::Yes,
            false => Reclaim::No,
        };
        self.ask(Revision::ZERO, reclaim).await
    }

    /// Forgets now all history up to a revision, whatever retention wants, and gives its space
    /// back to the last byte: nothing of it stays in the store's files. Waits until that is done.
    ///
    /// # Errors
    /// [`CompactError`]
    pub async fn purge(&self, up_to: Revision) -> Result<CompactReport, CompactError> {
        self.ask(up_to, Reclaim::All).await
    }

    async fn ask(&self, up_to: Revision, reclaim: Reclaim) -> Result<CompactReport, CompactError> {
        let (done, report) = oneshot::channel();
        let order = CompactNow {
            up_to,
            reclaim,
            done,
        };
        self.actor_ref
            .ask_patiently(order)
            .await
            .map_err(|_| CompactError::Gone)?;
        Ok(report.await.map_err(|_| CompactError::Gone)??)
    }
}
