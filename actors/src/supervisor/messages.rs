//! The messages of the Supervisor.

use actix::Message;

use super::child::Child;
use crate::exit::ChildId;

/// Stops all children in order, then the Supervisor.
pub(crate) struct StopAll;

impl Message for StopAll {
    type Result = ();
}

/// Starts these children, the first one first.
pub(crate) struct AddChildren(pub(crate) Vec<Child>);

impl Message for AddChildren {
    type Result = Result<(), Stopping>;
}

/// The Supervisor is stopping and starts no more children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopping;

/// Removes these children, the last one first. The answer comes when they have ended.
pub(crate) struct RemoveChildren(pub(crate) Vec<ChildId>);

impl Message for RemoveChildren {
    type Result = ();
}
