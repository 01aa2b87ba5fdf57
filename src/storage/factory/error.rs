//! Why the configuration of storage is refused.

use crate::storage::StorageError;
use crate::storage::codec::TypeName;

/// Why resources can't be stored as they are configured to be.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FactoryError {
    /// Nobody knows the resource (SF-33).
    #[error("no storage destination is known for {resource}: {reason}")]
    NoDestination {
        /// The resource.
        resource: String,
        /// Why not.
        reason: String,
    },
    /// A storage version that is none.
    #[error("storage.versions: {entry}: {problem}")]
    Version {
        /// The entry.
        entry: String,
        /// What is wrong with it, and what there is.
        problem: String,
    },
    /// Values would be called what they are not.
    #[error(
        "{resource}: it is served as {served} and would be stored as {stored}, and nothing turns \
         one into the other; storage.versions must leave it as it is served"
    )]
    NoConversion {
        /// The resource.
        resource: String,
        /// What it is served as.
        served: TypeName,
        /// What it would be stored as.
        stored: TypeName,
    },
    /// Several of these, a line each (SF-30).
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<FactoryError>),
    /// No engine was given for a back end.
    #[error("there is no engine for the back end {0}")]
    NoEngine(String),
    /// A resource has no place in the store (ST-5).
    #[error("a resource can't be stored: {0}")]
    Place(#[from] StorageError),
}
