//! What the Supervisor is told.

use actix::Message;

use super::child::Child;
use crate::exit::ChildId;

/// Stop everyone in order, then yourself.
pub(crate) struct StopAll;

impl Message for StopAll {
    type Result = ();
}

/// Start these as well, the first one first.
pub(crate) struct AddChildren(pub(crate) Vec<Child>);

impl Message for AddChildren {
    type Result = Result<(), Stopping>;
}

/// Everything is being stopped, and nothing is started any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopping;

/// Stop these for good, the last one first. The answer comes when they have ended.
pub(crate) struct RemoveChildren(pub(crate) Vec<ChildId>);

impl Message for RemoveChildren {
    type Result = ();
}
