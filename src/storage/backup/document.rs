//! The JSON documents in the first and the last frame of a backup.

use std::time::{Duration, SystemTime};

use actors::engine::{ExportEnd, ExportedLease, Lease, LeaseId, Revision};
use serde::{Deserialize, Serialize};

/// The first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub format: u32,
    /// Program and version.
    pub written_by: String,
    /// When the backup began, as RFC 3339.
    pub time: String,
    /// The prefix of all keys.
    pub prefix: String,
    /// The expected length of the file, or 0 if it is not known.
    pub estimated_bytes: u64,
}

/// The last frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The newest revision.
    pub revision: u64,
    /// The history after this revision is complete.
    pub compacted: u64,
    /// The number of events.
    pub events: u64,
    leases: Vec<LeaseRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseRow {
    id: u64,
    ttl_nanos: u64,
    deadline_nanos: u64,
}

/// The frame of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FailureDocument {
    pub(super) message: String,
}

impl Summary {
    pub(super) fn new(end: &ExportEnd, events: u64) -> Summary {
        let leases = end.leases.iter().map(|exported| LeaseRow {
            id: exported.lease.id.0,
            ttl_nanos: nanos(exported.lease.ttl),
            deadline_nanos: nanos(
                exported
                    .deadline
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default(),
            ),
        });
        Summary {
            revision: end.revision.0,
            compacted: end.compacted.0,
            events,
            leases: leases.collect(),
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    /// The leases of the store.
    pub fn leases(&self) -> Vec<ExportedLease> {
        let leases = self.leases.iter().map(|row| ExportedLease {
            lease: Lease {
                id: LeaseId(row.id),
                ttl: Duration::from_nanos(row.ttl_nanos),
            },
            deadline: SystemTime::UNIX_EPOCH + Duration::from_nanos(row.deadline_nanos),
        });
        leases.collect()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
