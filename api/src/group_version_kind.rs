//! A kind with its group and version.

use serde::Serialize;

/// A kind with its group and version, as documents about the API name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GroupVersionKind<'n> {
    /// API group; empty for the core group.
    pub group: &'n str,
    /// `v1`.
    pub version: &'n str,
    /// `ConfigMap`.
    pub kind: &'n str,
}
