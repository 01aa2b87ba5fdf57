//! The reasons why patches are refused.

use std::fmt::Display;

use super::MAX_OPERATIONS;
use crate::decode::OtherKind;
use crate::field_error::FieldError;

/// The reason why a patch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch, or has an invalid directive: a 400 (API-160, API-162).
    #[error("{0}")]
    Unreadable(String),
    /// A JSON patch has this many operations: a 413 (API-159).
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation of a JSON patch fails: a 422 with a constant text (API-160).
    #[error("an operation failed")]
    Failed,
    /// The result is not an object of the kind: a 422 that shows it (API-162).
    #[error("{0}")]
    InvalidResult(FieldError),
    /// The result has another kind than that of its custom resource: a 422 (CRD-153).
    #[error("{0}")]
    OtherKind(OtherKind),
    /// A strategic merge patch merges lists of lists: a 422 without a reason.
    #[error("lists of lists are not supported")]
    ListsOfLists,
    /// A strategic merge patch can't be merged: a 500 without a reason (API-165).
    #[error("{0}")]
    Unmergeable(String),
    /// The kind has no type by which a strategic merge patch could be merged: a 500.
    #[error("the type of the object is unknown")]
    UnknownType,
}

impl PatchError {
    /// Returns the error for a result that is not an object of the kind.
    pub(super) fn invalid_result(patched: impl Display, detail: &str) -> PatchError {
        PatchError::InvalidResult(FieldError::invalid_text("patch", patched, detail))
    }
}
