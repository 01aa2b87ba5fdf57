//! What a Writer is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::{Key, KeyValue};

/// Somebody wants the key's turn. The answer says only whether it is queued; the turn itself
/// comes through `grant`, and a caller that has gone away meanwhile is passed over.
pub(crate) struct Ask {
    pub(crate) key: Key,
    pub(crate) deadline: Instant,
    pub(crate) losses: u32,
    pub(crate) grant: oneshot::Sender<Granted>,
}

impl Message for Ask {
    type Result = Result<(), Busy>;
}

/// Too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// A turn. Dropping `give_back`, used or not, ends it: there is no message that could be lost.
#[derive(Debug)]
pub(crate) struct Granted {
    /// Set when the turn has expired.
    pub(crate) is_lost: Arc<AtomicBool>,
    pub(crate) last_outcome: Option<KeyValue>,
    pub(crate) give_back: oneshot::Sender<KeyValue>,
}

/// The engine is in doubt: what holders left is not to be built on.
pub(crate) struct ForgetAll;

impl Message for ForgetAll {
    type Result = ();
}

/// Stop for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
