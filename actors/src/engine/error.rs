//! Why an engine can't answer. Pure.

use super::key::{LeaseId, Revision};

/// Why an engine can't answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// The requested revision is compacted.
    #[error("revision {requested} is compacted, the oldest readable one is {compacted}")]
    Compacted {
        /// The revision asked for.
        requested: Revision,
        /// The newest compacted revision.
        compacted: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future, the store is at {current}")]
    FutureRevision {
        /// The revision asked for.
        requested: Revision,
        /// The store's current revision.
        current: Revision,
    },
    /// Nothing was done. The same call may succeed in a moment.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// Nothing was done, because there is no space. Deletes and compaction still work.
    #[error("no space left for writing: {0}")]
    OutOfSpace(String),
    /// The mutation may or may not have been committed. It must not be retried as if it had failed.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// Stored data is damaged. The text says where.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The request is too large for the engine.
    #[error("request is too large: {0}")]
    TooLarge(String),
    /// Nothing was done: the lease has run out, was revoked, or was never granted.
    #[error("lease {} is gone", .0.0)]
    LeaseNotFound(LeaseId),
    /// A layer above the engine cannot show a value, for this reason, which clients see.
    #[error("{0}")]
    Refused(String),
    /// The engine has been closed.
    #[error("the store is closed")]
    Closed,
}

impl EngineError {
    /// Whether the same call may succeed in a moment without a repair.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            EngineError::Unavailable(_) | EngineError::OutOfSpace(_)
        )
    }
}
