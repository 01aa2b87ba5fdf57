//! The interface of a storage engine (the port), in bytes and revisions.
//!
//! It owns the traits of an engine and the types that pass through them: keys, revisions, events,
//! mutations and their answers. It must know nothing of objects, namespaces or HTTP, and nothing of
//! the actors.
//!
//! An engine keeps a log of [`Event`]s. The state of its keys is computed from the log. [`memory`]
//! here, and `storage/embedded` and `storage/etcd` of the daemon implement the port. [`local`] has
//! the parts that the first two share. The engine suite in `tests/` defines what each engine must
//! do.
//!
//! The port has three parts, and a caller asks for the narrowest one: [`DataEngine`] reads, commits
//! and follows; [`LeaseEngine`] grants and expires leases; [`MaintenanceEngine`] compacts and gives
//! space back. [`Engine`] is all three, for code that opens and closes an engine.
//!
//! Rules for every engine:
//! - An event is *durable before it is acknowledged* and *visible only when durable*: neither a
//!   read, nor a feed, nor [`DataEngine::known`] shows what a power cut could still take back.
//! - Revisions strictly increase over the whole store and are never used twice.
//! - No method blocks the calling thread. Engines do their I/O on threads of their own, or as part
//!   of the calling task, which must be free to run.

mod data;
mod error;
mod event;
mod export;
mod key;
mod leases;
pub mod local;
mod maintenance;
pub mod memory;
mod prepared;
mod ticket;

use futures_util::future::BoxFuture;

pub use data::{
    At, DataEngine, Feed, FeedItem, FeedProgress, GetResponse, Health, HistoryChunk,
    HistoryRequest, PendingOutcome, Position, RangeRequest, RangeResponse,
};
pub use error::EngineError;
pub use event::{Change, Event, EventKind, Expect, KeyValue, Mutation, Origin, Outcome};
pub use export::{Export, ExportEnd, ExportItem, ExportedLease};
pub use key::{Key, LeaseId, Prefix, Revision, namespace_of};
pub use leases::{Expiry, HeldLease, Lease, LeaseEngine};
pub use maintenance::{EngineStats, Maintenance, MaintenanceEngine, Retention};
pub use memory::{MemoryEngine, MemorySnapshot};
pub use prepared::Prepared;
pub use ticket::{Ticket, TicketIssuer, ticket};

/// A whole engine, for code that opens and closes it.
pub trait Engine: DataEngine + LeaseEngine + MaintenanceEngine {
    /// Stops accepting work, makes everything acknowledged durable, and closes files.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Whether others write to the store, too.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether a value of this revision may be other than today's program would have written it:
    /// others write to the store, or an earlier edition of the program wrote the value.
    fn may_be_of_other_edition(&self, _revision: Revision) -> bool {
        self.is_shared()
    }

    /// Notes that today's edition of the program might have written all values of the state at this
    /// revision, and has written all later ones.
    ///
    /// # Errors
    /// If the engine can't be written.
    fn note_edition(&self, _as_of: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
