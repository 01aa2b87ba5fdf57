//! What the Lessor is told.

use actix::Message;

/// Stop for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
