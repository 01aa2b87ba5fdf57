//! The messages of a Writer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::last_outcomes::LastOutcome;
use crate::engine::Key;

/// Asks for the turn of a key. The answer says only whether the request is queued. The turn is sent
/// through `grant`. A caller that has gone away is skipped.
pub(crate) struct AskForTurn {
    pub(crate) key: Key,
    pub(crate) deadline: Instant,
    pub(crate) losses: u32,
    pub(crate) grant: oneshot::Sender<Granted>,
}

impl Message for AskForTurn {
    type Result = Result<(), Busy>;
}

/// Too many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// A turn. It ends when `give_back` is used or dropped, so no message can be lost.
#[derive(Debug)]
pub(crate) struct Granted {
    /// Set when the turn has expired.
    pub(crate) is_lost: Arc<AtomicBool>,
    pub(crate) last_outcome: Option<LastOutcome>,
    /// How many requests wait for the key's next turns.
    pub(crate) waiting: usize,
    pub(crate) give_back: oneshot::Sender<LastOutcome>,
}

/// Forgets all remembered values, because the engine does not know what it committed.
pub(crate) struct ForgetAll;

impl Message for ForgetAll {
    type Result = ();
}

/// Stops the Writer for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
