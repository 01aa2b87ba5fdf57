//! The messages of a Compactor.

use actix::Message;
use tokio::sync::oneshot;

use super::compaction::{CompactReport, Reclaim};
use crate::engine::{EngineError, Revision};

/// Starts a compaction now, for an operator. The report is sent through `done`.
pub(crate) struct CompactNow {
    /// History up to here is removed, whatever retention says.
    pub(crate) up_to: Revision,
    pub(crate) reclaim: Reclaim,
    pub(crate) done: oneshot::Sender<Result<CompactReport, EngineError>>,
}

impl Message for CompactNow {
    type Result = ();
}

/// Stops the Compactor for good, after the running compaction.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
