//! The Compactor, as the rest of the daemon sees it.

use crate::engine::{EngineError, Revision};

/// Where to ask for a compaction now.
#[derive(Clone, Default)]
pub struct CompactorHandle {
    pub(super) _nothing_yet: (),
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
    ///
    /// # Errors
    /// [`CompactError`]
    pub async fn compact_now(&self, _reclaim: bool) -> Result<CompactReport, CompactError> {
        Ok(CompactReport::default())
    }
}
