//! The messages of a Reflector.

use actix::Message;

/// Stops the Reflector for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}
