//! A whole store, read from beginning to end, for backups. etcd's Maintenance service calls it a
//! snapshot.

use std::time::SystemTime;

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::event::Event;
use super::key::Revision;
use super::leases::Lease;

/// A lease in an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedLease {
    /// The lease, with the time to live as granted.
    pub lease: Lease,
    /// When it runs out, by the wall clock.
    pub deadline: SystemTime,
}

/// The summary of an export's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEnd {
    /// The newest revision. The records show the state of the store at it.
    pub revision: Revision,
    /// Every event after this revision is among the records, so that the state at any revision from
    /// here on can be restored. It is `revision` if the engine exports no history.
    pub compacted: Revision,
    /// The leases there are. A key that is attached to none of them belongs to a lease that has
    /// ended.
    pub leases: Vec<ExportedLease>,
}

/// An item that an export delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportItem {
    /// Some records, without previous values. Those of a key come with rising revisions. Records
    /// that no revision from [`ExportEnd::compacted`] on shows may be among them.
    Events(Vec<Event>),
    /// The end.
    End(ExportEnd),
}

/// An export under way. Writers are not disturbed, and compaction goes on meanwhile. Dropping it
/// ends it.
pub trait Export: Send {
    /// The next records, of a few megabytes at most unless one alone is larger. After
    /// [`ExportItem::End`] nothing follows.
    ///
    /// # Errors
    /// If the engine can't be read. The export is worthless then.
    fn next(&mut self) -> BoxFuture<'_, Result<ExportItem, EngineError>>;
}
