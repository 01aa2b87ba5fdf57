//! One store that a rewrite goes through.

use crate::storage::underlying::Underlying;

/// A store whose values are rewritten.
pub struct RewrittenStore {
    /// Its resource, `secrets` or `deployments.apps`.
    pub resource: String,
    /// The back end that keeps it.
    pub back_end: String,
    /// The store itself.
    pub store: Underlying,
}
