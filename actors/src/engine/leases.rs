//! The part of the port that grants leases and ends them, as etcd's Lease service does.

use std::future::ready;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::key::LeaseId;

/// A lease. The keys attached to it are deleted when its time to live is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// The granted time to live, which may be longer than requested.
    pub ttl: Duration,
}

/// A lease that has not ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Its number, and its time to live as granted.
    pub lease: Lease,
    /// The time until it runs out.
    pub remaining: Duration,
}

/// The result of one step of expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Keys deleted in this step.
    pub expired: u64,
    /// Whether another step would find work.
    pub more: bool,
    /// The time until the next lease runs out, if `more` is false; `None` if no lease needs a
    /// further step.
    pub next: Option<Duration>,
}

/// The leases of a store.
pub trait LeaseEngine: Send + Sync + 'static {
    /// Grants a lease of at least this time to live. A lease without keys may be lost when the
    /// process ends. Then puts that name it are refused.
    ///
    /// # Errors
    /// If the engine can't be written.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>>;

    /// Ends a lease now. Its keys are deleted before the answer, each by an event. After an error
    /// they may still be deleted later.
    ///
    /// # Errors
    /// [`EngineError::LeaseNotFound`] if it does not exist.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Performs one step of deleting keys whose lease has expired. It is short, so that client
    /// writes are not delayed. A key is deleted only if it is attached to that lease at that
    /// moment, by an event with a revision of its own. An engine whose server deletes the keys does
    /// nothing.
    ///
    /// # Errors
    /// If the engine can't be written.
    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>>;

    /// Lets a lease live as long from now on as it was granted for. An engine for daemons has no
    /// need of it, because they only grant.
    ///
    /// # Errors
    /// [`EngineError::LeaseNotFound`] if it has run out, was revoked or was never granted.
    fn renew(&self, _lease: LeaseId) -> BoxFuture<'_, Result<Lease, EngineError>> {
        Box::pin(ready(Err(not_offered("renew leases"))))
    }

    /// The leases that have not ended.
    ///
    /// # Errors
    /// If the engine can't be read.
    fn leases(&self) -> BoxFuture<'_, Result<Vec<HeldLease>, EngineError>> {
        Box::pin(ready(Err(not_offered("list leases"))))
    }
}

fn not_offered(what: &str) -> EngineError {
    EngineError::Refused(format!("this engine does not {what}"))
}
