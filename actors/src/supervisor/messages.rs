//! What the Supervisor is told.

use actix::Message;

/// Stop everyone in order, then yourself.
pub(crate) struct StopAll;

impl Message for StopAll {
    type Result = ();
}
