//! What the Compactor is told.

use actix::Message;
use tokio::sync::oneshot;

use super::handle::CompactReport;
use super::round::Reclaim;
use crate::engine::{EngineError, Revision};

/// An operator wants a round now; its report comes through `done`.
pub(crate) struct CompactNow {
    /// Goes at least, whatever retention wants.
    pub(crate) up_to: Revision,
    pub(crate) reclaim: Reclaim,
    pub(crate) done: oneshot::Sender<Result<CompactReport, EngineError>>,
}

impl Message for CompactNow {
    type Result = ();
}

/// Stop for good, after the round that is under way.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
