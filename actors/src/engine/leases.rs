//! The part of the port that grants leases and ends them: etcd's service Lease.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::key::LeaseId;

/// A lease: the keys attached to it are deleted when its time to live is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// The time to live as granted, which may be longer than what was asked for.
    pub ttl: Duration,
}

/// What one step of deleting what outlived its lease did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Keys deleted in this step.
    pub expired: u64,
    /// Whether another step would find work.
    pub more: bool,
    /// Until the next lease runs out, where `more` is false; `None` when there is none that this
    /// engine must be reminded of.
    pub next: Option<Duration>,
}

/// The leases of a store.
pub trait LeaseEngine: Send + Sync + 'static {
    /// Grants a lease of at least so long. It lives on without keys, and it may be lost with the
    /// process as long as nothing has been attached to it: then puts that name it are refused.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>>;

    /// Ends a lease now. Its keys are deleted before the answer, each by an event; when the answer
    /// is an error they may be deleted later, all the same.
    ///
    /// # Errors
    /// [`EngineError::LeaseNotFound`] when it is gone already.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>>;

    /// One small step of deleting the keys that outlived their lease, short enough that client
    /// writes don't feel it. A key is deleted only if it is attached to that lease at that
    /// moment, by an event with a revision of its own. An engine whose server does that by itself
    /// has nothing to do.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>>;
}
