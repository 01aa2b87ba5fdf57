//! The types of [`Storage::history`](super::Storage::history), which returns the changes of one
//! object.

use std::sync::Arc;
use std::time::SystemTime;

use actors::engine::{Origin, Revision};
use actors::object::CachedObject;

/// A read of a part of an object's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Key relative to the store's prefix.
    pub key: String,
    /// The span to read. `None` for the first part.
    pub span: Option<HistorySpan>,
}

/// The part of history that remains to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// Changes after this revision.
    pub after: Revision,
    /// Changes up to this revision.
    pub until: Revision,
}

/// The kind of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object's content before the retained history.
    Earlier,
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The revision of the change.
    pub revision: Revision,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The time of the change. `None` if the engine does not record times.
    pub time: Option<SystemTime>,
    /// The user and request that caused it; empty if the engine does not record them.
    pub origin: Origin,
    /// The content after the change, unless the object was deleted. A value that cannot be decoded
    /// is its error.
    pub object: Option<Result<Arc<CachedObject>, String>>,
}

/// A part of an object's history.
#[derive(Clone, Debug)]
pub struct ObjectHistory {
    /// The changes, oldest first.
    pub changes: Vec<ObjectChange>,
    /// The span that remains to be read. `None` at the end.
    pub rest: Option<HistorySpan>,
}
