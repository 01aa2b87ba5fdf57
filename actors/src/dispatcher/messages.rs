//! The messages of a Dispatcher.

use actix::Message;

/// Some rings have events to read. [`HintSender`](super::hint_sender::HintSender) knows which.
pub(super) struct Hint;

impl Message for Hint {
    type Result = ();
}
