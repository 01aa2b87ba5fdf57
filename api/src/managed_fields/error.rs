//! The reasons why server-side applies and writes of Scales fail.

use super::conflicts::Conflicts;
use super::entry::EntryError;

/// The reason why an apply, or a write of a Scale, fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The applied object is not one that can be applied: a 400 (API-170).
    #[error("{0}")]
    BadObject(String),
    /// Other managers own the fields with other values: a 409 (API-174).
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The managedFields of the stored object can't be read: a 500 without a reason.
    #[error("failed to decode managed fields: {0}")]
    UnreadableEntries(#[from] EntryError),
    /// The fields do not fit the type of the kind: a 500 without a reason (API-171).
    #[error("{0}")]
    Failed(String),
    /// The kind has no Scale: a 500.
    #[error("the kind has no scale")]
    NoScale,
}
