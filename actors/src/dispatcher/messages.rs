//! What a Dispatcher is told.

use actix::Message;

/// Some of its desks have something to fetch; which ones stands in its link.
pub(super) struct Hint;

impl Message for Hint {
    type Result = ();
}
