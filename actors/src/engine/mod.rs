//! The port: what the actors and the daemon ask of a storage engine, in bytes and revisions.
//!
//! It owns the traits of an engine and the types that pass through them: keys, revisions, events,
//! mutations and their answers. An engine keeps a log of [`Event`]s, which is the truth, and
//! answers questions about the state that is its fold. [`memory`] here, and `storage/embedded` and
//! `storage/etcd` of the daemon implement the port; [`local`] is what the first two share. The
//! engine suite in `tests/` says what each engine must do. The port knows nothing of objects,
//! namespaces or HTTP, and nothing of the actors.
//!
//! The port has three parts, and a caller asks for the narrowest that will do: [`DataEngine`]
//! reads, commits and follows; [`LeaseEngine`] grants and expires; [`MaintenanceEngine`] compacts
//! and gives space back. [`Engine`] is all three, for those who open and close one.
//!
//! Rules for every engine:
//! - An event is *durable before it is acknowledged* and *visible only when durable*: neither a
//!   read, nor a feed, nor [`DataEngine::known`] shows what a power cut could still take back.
//! - Revisions strictly increase over the whole store and are never used twice.
//! - No method blocks the calling thread: engines do their I/O on threads of their own, or as
//!   part of the task that asks, which must be free to run.

mod data;
mod error;
mod event;
mod key;
mod leases;
pub mod local;
mod maintenance;
pub mod memory;

use futures_util::future::BoxFuture;

pub use data::{
    At, DataEngine, Feed, FeedItem, FeedProgress, GetResponse, Health, HistoryChunk,
    HistoryRequest, Position, RangeRequest, RangeResponse,
};
pub use error::EngineError;
pub use event::{Change, Event, EventKind, Expect, KeyValue, Mutation, Origin, Outcome};
pub use key::{Key, LeaseId, Prefix, Revision};
pub use leases::{Expiry, Lease, LeaseEngine};
pub use maintenance::{EngineStats, Maintenance, MaintenanceEngine, Retention};
pub use memory::MemoryEngine;

/// A whole engine, as whoever opens and closes it has it.
pub trait Engine: DataEngine + LeaseEngine + MaintenanceEngine {
    /// Stops accepting work, makes everything acknowledged durable and lets go of files.
    fn close(&self) -> BoxFuture<'_, ()>;
}
