//! The part of the port that forgets history and gives space back: etcd's service Maintenance and
//! its compaction.

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::key::Revision;

/// How much history to keep: whichever of the two keeps less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events younger than this are kept.
    pub age: Duration,
    /// At most so many bytes of superseded records are kept.
    pub bytes: u64,
}

/// What one step of maintenance found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Records removed in this step.
    pub removed: u64,
    /// Bytes given back to the file system in this step.
    pub reclaimed_bytes: u64,
    /// Whether another step would find work.
    pub more: bool,
}

/// Revisions and sizes of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// The newest revision known without I/O.
    pub revision: Revision,
    /// The newest revision compacted; 0 when nothing was.
    pub compacted: Revision,
    /// Keys that exist now.
    pub live_keys: u64,
    /// Bytes of the events retained, live values included.
    pub retained_bytes: u64,
    /// Bytes of the blocks that the store takes on disk; its file may be longer and have holes.
    pub file_bytes: u64,
}

/// Compaction and upkeep of a store.
pub trait MaintenanceEngine: Send + Sync + 'static {
    /// The newest revision that retention would forget at this time.
    ///
    /// # Errors
    /// When the engine can't be read.
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>>;

    /// Forgets superseded events up to and including the revision: from the answer on, reads at
    /// and feeds after an older revision are refused (a read *at* the revision still works). The
    /// space comes back by [`MaintenanceEngine::maintain`].
    ///
    /// # Errors
    /// [`EngineError::FutureRevision`] beyond the current revision; a compacted one is no error.
    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>>;

    /// One small step of upkeep, short enough that client writes don't feel it: removing what
    /// was compacted and, with `reclaim`, giving space back to the file system.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>>;

    /// One small step of giving all space back, however little it is. Once there is no more to do,
    /// the store's files hold nothing of what was compacted before the first step.
    ///
    /// # Errors
    /// When the engine can't be written, has no room for it, or too much is being written.
    fn purge(&self) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.maintain(true)
    }

    /// Revisions and sizes, without I/O.
    fn stats(&self) -> EngineStats;
}
