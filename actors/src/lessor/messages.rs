//! The messages of a Lessor.

use actix::Message;

/// Stops the Lessor for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
