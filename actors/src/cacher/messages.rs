//! What a Cacher is told, all of it by its Reflector.

use actix::Message;

use super::store::Update;
use crate::engine::Revision;
use crate::snapshot::Snapshot;

/// Where a Reflector may go on: after this revision of this generation; `None` when the cache
/// must be filled first.
pub(crate) struct WhereToResume;

impl Message for WhereToResume {
    type Result = Option<Place>;
}

/// A revision of one generation of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) generation: u64,
    pub(crate) revision: Revision,
    /// Of the store: what the cache holds can't be continued in another one.
    pub(crate) epoch: u64,
}

/// The whole content of the resource, read into a side buffer; answers with its generation.
pub(crate) struct Replace {
    pub(crate) content: Snapshot,
}

impl Message for Replace {
    type Result = u64;
}

/// The next events of a generation, without a gap.
pub(crate) struct Apply {
    pub(crate) generation: u64,
    pub(crate) updates: Vec<Update>,
    /// Nothing else happened up to here.
    pub(crate) up_to: Revision,
}

impl Message for Apply {
    type Result = Result<(), Outdated>;
}

/// The Cacher is not in the generation that the events continue: fill it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outdated;

/// The resource could not be read.
pub(crate) struct FillFailed {
    pub(crate) error: String,
    /// What the cache holds can't go on being served: an event of it is unreadable (WA-33).
    pub(crate) is_broken: bool,
}

impl Message for FillFailed {
    type Result = ();
}

/// Stop for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}

/// Dies of a panic, as a fault in a handler would.
#[cfg(test)]
pub(crate) struct Panic;

#[cfg(test)]
impl Message for Panic {
    type Result = ();
}
