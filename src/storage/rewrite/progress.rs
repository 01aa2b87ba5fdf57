//! Reports the progress of a rewrite, and why it fails.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The progress of a rewrite. Each value is one line of JSON in the response of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum RewriteProgress {
    /// Values are being read.
    Looking {
        /// The number of the pass, from 1.
        pass: u32,
        /// The resource whose values they are.
        resource: String,
        /// Values read in this pass, of all resources.
        seen: u64,
        /// The approximate number of values.
        total: u64,
        /// Values rewritten so far.
        rewritten: u64,
    },
    /// All values are rewritten. History is being compacted and purged from the files.
    Purging {
        /// History is purged up to this revision.
        revision: u64,
    },
    /// The rewrite is done. Nothing in the covered back ends needs any key but the first one.
    Done {
        /// Values read in the last pass.
        seen: u64,
        /// Values rewritten.
        rewritten: u64,
        /// Whether there are keys: encryption is configured.
        is_encrypted: bool,
        /// Whether keys and history stayed as they were.
        #[serde(default)]
        only_versions: bool,
        /// The `apiVersion` in which all objects of each custom resource are stored.
        #[serde(default)]
        stored_as: BTreeMap<String, String>,
        /// The back ends for which this holds.
        covered: Vec<Covered>,
        /// The revision up to which the daemon's own store is compacted, if there is one.
        compacted_revision: Option<u64>,
        /// Bytes given back to the file system.
        reclaimed_bytes: u64,
    },
    /// The rewrite ended early. The next run continues.
    Failed {
        /// The reason.
        reason: String,
        /// Some of the values that cannot be read.
        unreadable: Vec<String>,
    },
}

/// A back end whose values are all encrypted with the current keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Covered {
    /// The name of the back end.
    pub back_end: String,
    /// The number of its resources. All their values were read.
    pub resources: u64,
    /// The revision at which they were last read.
    pub revision: u64,
    /// Whether other servers may write to it too. Then its history has old values until the back
    /// end itself compacts them.
    pub is_shared: bool,
}

/// The reason why a rewrite fails.
pub(super) struct RewriteError {
    pub(super) reason: String,
    /// Some of the values that cannot be read.
    pub(super) unreadable: Vec<String>,
}

impl RewriteError {
    /// An error without unreadable values.
    pub(super) fn of(reason: impl ToString) -> RewriteError {
        RewriteError {
            reason: reason.to_string(),
            unreadable: Vec::new(),
        }
    }

    /// Returns the error for a receiver that has gone away.
    pub(super) fn unheard() -> RewriteError {
        RewriteError::of("the client has gone away")
    }
}
