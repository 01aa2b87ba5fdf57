//! The messages of a Cacher. All of them come from its Reflector, and `Stop` from the Supervisor.

use actix::Message;

use super::cache_content::Update;
use crate::engine::Revision;
use crate::snapshot::Snapshot;

/// Asks where a Reflector can continue. `None` if the cache must be filled first.
pub(crate) struct WhereToResume;

impl Message for WhereToResume {
    type Result = Option<ResumePoint>;
}

/// Where a Reflector can continue: after a revision of one generation of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    pub(crate) generation: u64,
    pub(crate) revision: Revision,
    /// The epoch of the store. The content can't be continued in another epoch.
    pub(crate) epoch: u64,
}

/// Replaces the whole content of the cache. The answer is the new generation.
pub(crate) struct Replace {
    pub(crate) content: Snapshot,
}

impl Message for Replace {
    type Result = u64;
}

/// The events of a generation by which the store was reset, up to the revision of its new content.
/// All watches end, because the store has nothing before that revision any more. The answer is the
/// new generation.
pub(crate) struct Reset {
    pub(crate) generation: u64,
    pub(crate) updates: Vec<Update>,
    pub(crate) revision: Revision,
}

impl Message for Reset {
    type Result = Result<u64, Outdated>;
}

/// The next events of a generation. No event is missing.
pub(crate) struct Apply {
    pub(crate) generation: u64,
    pub(crate) updates: Vec<Update>,
    /// No other event of the resource happened up to this revision.
    pub(crate) up_to: Revision,
}

impl Message for Apply {
    type Result = Result<(), Outdated>;
}

/// The cache is not in the generation that the events continue. It must be filled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outdated;

/// The resource could not be read.
pub(crate) struct FillFailed {
    pub(crate) error: String,
    /// The content can't be served any longer, because an event could not be decoded (WA-33).
    pub(crate) is_broken: bool,
}

impl Message for FillFailed {
    type Result = ();
}

/// Stops the Cacher for good.
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}

/// Panics, as a fault in a handler would.
#[cfg(test)]
pub(crate) struct Panic;

#[cfg(test)]
impl Message for Panic {
    type Result = ();
}
