//! Why the configuration of storage is refused.

use crate::storage::StorageError;
use crate::storage::codec::TypeName;

/// Why resources cannot be stored as configured.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FactoryError {
    /// The resource is unknown (SF-33).
    #[error("no storage destination is known for {resource}: {reason}")]
    NoDestination {
        /// The resource.
        resource: String,
        /// Why not.
        reason: String,
    },
    /// A storage version that does not exist.
    #[error("storage.versions: {entry}: {problem}")]
    Version {
        /// The entry.
        entry: String,
        /// The problem, and which versions exist.
        problem: String,
    },
    /// The resource would be stored as a type that it cannot be converted into.
    #[error(
        "{resource}: it is served as {served} and would be stored as {stored}, and nothing turns \
         one into the other; storage.versions must leave it as it is served"
    )]
    NoConversion {
        /// The resource.
        resource: String,
        /// The type it is served as.
        served: TypeName,
        /// The type it would be stored as.
        stored: TypeName,
    },
    /// Two versions cannot be stored as one resource.
    #[error("{version} cannot be stored together with {hub}: {difference}")]
    Versions {
        /// The version.
        version: TypeName,
        /// The version that is stored and cached.
        hub: TypeName,
        /// How they differ.
        difference: &'static str,
    },
    /// Several errors, one line each (SF-30).
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<FactoryError>),
    /// No engine was given for a back end.
    #[error("there is no engine for the back end {0}")]
    NoEngine(String),
    /// A resource has no key prefix (ST-5).
    #[error("a resource can't be stored: {0}")]
    Place(#[from] StorageError),
}
