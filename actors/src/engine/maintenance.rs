//! The part of the port that compacts history and gives space back, as etcd's compaction and its
//! Maintenance service do.

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::export::Export;
use super::key::Revision;

/// How much history to keep. The limit that keeps less applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events younger than this are kept.
    pub age: Duration,
    /// At most this many bytes of superseded records are kept.
    pub bytes: u64,
}

/// The result of one step of maintenance.
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
    /// Bytes of the blocks that the store takes on disk. Its file may be longer and have holes.
    pub file_bytes: u64,
}

/// Compaction and upkeep of a store.
pub trait MaintenanceEngine: Send + Sync + 'static {
    /// The newest revision that is beyond retention at this time.
    ///
    /// # Errors
    /// If the engine can't be read.
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>>;

    /// Compacts history up to and including the revision. From the answer on, reads at older
    /// revisions and feeds after them are refused. A read *at* the revision still works.
    /// [`MaintenanceEngine::maintain`] gives the space back.
    ///
    /// # Errors
    /// [`EngineError::FutureRevision`] beyond the current revision. A compacted revision is not an
    /// error.
    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Performs one step of maintenance: it removes what was compacted and, with `reclaim`, gives
    /// space back to the file system. It is short, so that client writes are not delayed.
    ///
    /// # Errors
    /// If the engine can't be written.
    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>>;

    /// Performs one step of giving all space back, however little it is. After the last step the
    /// store's files hold nothing of what was compacted before the first one.
    ///
    /// # Errors
    /// If the engine can't be written, has no space for it, or too much is being written.
    fn purge(&self) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.maintain(true)
    }

    /// Begins to read the whole store.
    fn export(&self) -> Box<dyn Export>;

    /// Revisions and sizes, without I/O.
    fn stats(&self) -> EngineStats;
}
