//! The handle to a Compactor that the rest of the daemon uses.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Compactor;
use super::compaction::{CompactReport, Reclaim};
use super::messages::CompactNow;
use crate::actor_ref::ActorRef;
use crate::engine::{EngineError, Revision};

/// Asks a store's Compactor for a compaction.
#[derive(Clone)]
pub struct CompactorHandle {
    pub(crate) actor_ref: Arc<ActorRef<Compactor>>,
}

/// Why a compaction was not completed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompactError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The Compactor ended before the compaction was complete.
    #[error("the compactor went away")]
    Gone,
}

impl CompactorHandle {
    /// Compacts history beyond retention now and, with `reclaim`, gives its space back. Waits until
    /// that is done, however long it takes.
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

    /// Compacts all history up to a revision now, whatever retention says, and gives all of its
    /// space back: nothing of it stays in the store's files. Waits until that is done.
    ///
    /// # Errors
    /// [`CompactError`]
    pub async fn purge(&self, up_to: Revision) -> Result<CompactReport, CompactError> {
        self.ask(up_to, Reclaim::All).await
    }

    async fn ask(&self, up_to: Revision, reclaim: Reclaim) -> Result<CompactReport, CompactError> {
        let (done, report) = oneshot::channel();
        let message = CompactNow {
            up_to,
            reclaim,
            done,
        };
        self.actor_ref
            .ask_patiently(message)
            .await
            .map_err(|_| CompactError::Gone)?;
        Ok(report.await.map_err(|_| CompactError::Gone)??)
    }
}
