//! What is told of a rewriting.

use serde::{Deserialize, Serialize};

/// How far it has come; each a line of JSON of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum RewriteProgress {
    /// Values are being looked at.
    Looking {
        /// The number of the pass, from 1.
        pass: u32,
        /// Whose values.
        resource: String,
        /// Values looked at in this pass, of all resources.
        seen: u64,
        /// Values there are, about.
        total: u64,
        /// Values written anew so far.
        rewritten: u64,
    },
    /// Everything is fresh; history is being forgotten and purged from the files.
    Purging {
        /// Up to here.
        revision: u64,
    },
    /// It is done: nothing of what is covered needs a key that does not write.
    Done {
        /// Values looked at in the last pass.
        seen: u64,
        /// Values written anew.
        rewritten: u64,
        /// What this holds of.
        covered: Vec<Covered>,
        /// How far the history of the daemon's own store is forgotten now, where it has one.
        compacted_revision: Option<u64>,
        /// Bytes given back to the file system.
        reclaimed_bytes: u64,
    },
    /// It ended before everything was done. Run again, it goes on.
    Failed {
        /// Why.
        reason: String,
        /// Some of the values that can't be read.
        unreadable: Vec<String>,
    },
}

/// A back end whose values are all under today's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Covered {
    /// Its name.
    pub back_end: String,
    /// Resources it keeps, whose values were all looked at.
    pub resources: u64,
    /// The revision that they were last looked at.
    pub revision: u64,
    /// Others may write to it too, and it forgets its history by itself, which holds old values
    /// until then.
    pub is_shared: bool,
}
