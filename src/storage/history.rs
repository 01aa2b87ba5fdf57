//! What became of one object: the types of [`Storage::history`](super::Storage::history).

use std::sync::Arc;
use std::time::SystemTime;

use actors::engine::{Origin, Revision};
use actors::object::CachedObject;

/// A read of a piece of an object's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Key relative to the store's prefix.
    pub key: String,
    /// Where the piece begins and where history ends; `None` for the first piece.
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

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It had this content before the history that is kept.
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
    /// What happened.
    pub kind: ChangeKind,
    /// When; `None` if the engine does not tell.
    pub time: Option<SystemTime>,
    /// Who caused it; empty if the engine does not tell.
    pub origin: Origin,
    /// The content from then on, unless it was deleted. A value that can't be decoded is told as a
    /// text.
    pub object: Option<Result<Arc<CachedObject>, String>>,
}

/// A piece of an object's history.
#[derive(Clone, Debug)]
pub struct ObjectHistory {
    /// The changes, oldest first.
    pub changes: Vec<ObjectChange>,
    /// What remains; `None` at the end.
    pub rest: Option<HistorySpan>,
}
