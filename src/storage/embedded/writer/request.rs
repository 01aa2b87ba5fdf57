//! Requests to the writer, and how it answers them.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    Change, EngineError, Expiry, HeldLease, Lease, LeaseId, Maintenance, Mutation, Outcome,
    Revision, TicketIssuer,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::storage::embedded::defrag::Defrag;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::maintenance_state::HeldMaintenance;
use crate::storage::embedded::readers::ReaderPool;
use crate::storage::embedded::store::Store;

/// Bytes that a request counts in the queue, in addition to its value.
pub(super) const REQUEST_BYTES: usize = 1024;

/// A request to the writer.
pub enum WriterRequest {
    /// Decide and store a mutation.
    Commit(CommitRequest),
    /// Compact up to a revision.
    Compact(Revision, Reply<()>),
    /// Note that all values of the state at this revision are of today's edition.
    NoteEdition(Revision, Reply<()>),
    /// Remove some compacted records.
    Scrub(Reply<Maintenance>),
    /// A request about leases.
    Lease(LeaseRequest),
    /// Put a defragmented file in the log's place. It comes back if that cannot be done yet.
    Promote(
        Box<Defrag>,
        HeldMaintenance,
        Reply<(Promotion, HeldMaintenance)>,
    ),
    /// A reader found this database broken.
    Alarm(Arc<Store>, Failure),
    /// Close. The readers are stopped first.
    Close(Arc<ReaderPool>),
}

/// A mutation and its caller.
pub struct CommitRequest {
    pub(super) mutation: Mutation,
    /// Issues the ticket for the result of the mutation, if another one may follow it.
    pub(super) issuer: Option<TicketIssuer>,
    pub(super) answer: oneshot::Sender<Result<Outcome, EngineError>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl CommitRequest {
    /// Whether others are about to follow the mutation.
    pub(super) fn has_followers(&self) -> bool {
        let issuer = self.issuer.as_ref();
        issuer.is_some_and(TicketIssuer::has_followers)
    }

    /// Answers the caller, and settles the ticket. A commit must be durable.
    pub(super) fn answer(mut self, outcome: Result<Outcome, EngineError>) {
        if let (Ok(Outcome::Committed(event)), Some(issuer)) = (&outcome, self.issuer.take()) {
            issuer.settle(event.revision);
        }
        // The caller may have gone away. The mutation counts all the same.
        let _ = self.answer.send(outcome);
    }
}

/// The way to answer a caller. It also holds the request's place in the queue.
pub struct Reply<T> {
    pub(super) answer: oneshot::Sender<Result<T, EngineError>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<T> Reply<T> {
    pub(super) fn send(self, result: Result<T, EngineError>) {
        // The caller may have gone away.
        let _ = self.answer.send(result);
    }
}

/// The result of putting a defragmented file in the log's place.
pub enum Promotion {
    /// The new file is the log now. The caller drops the old database, because that may take time.
    Done(Option<Arc<Store>>),
    /// Writers were faster. Copy more and ask again.
    Later(Box<Defrag>),
    /// The copy differs from the log and is useless.
    Useless,
}

/// A request to the writer about leases.
pub enum LeaseRequest {
    /// Grant a lease with this time to live.
    Grant(Duration, Reply<Lease>),
    /// Revoke a lease and delete some of its keys. Returns whether keys are left.
    Revoke(LeaseId, Reply<bool>),
    /// Delete more keys of a revoked lease.
    ContinueRevoking(LeaseId, Reply<bool>),
    /// Delete some of the keys whose lease has expired.
    Expire(Reply<Expiry>),
    /// Let a lease live as long from now on as it was granted for.
    Renew(LeaseId, Reply<Lease>),
    /// List the leases that have not ended.
    List(Reply<Vec<HeldLease>>),
}

impl LeaseRequest {
    /// Answers a request that cannot be carried out.
    pub(super) fn refuse(self, error: &EngineError) {
        match self {
            LeaseRequest::Grant(_, reply) => reply.send(Err(error.clone())),
            LeaseRequest::Revoke(_, reply) | LeaseRequest::ContinueRevoking(_, reply) => {
                reply.send(Err(error.clone()));
            }
            LeaseRequest::Expire(reply) => reply.send(Err(error.clone())),
            LeaseRequest::Renew(_, reply) => reply.send(Err(error.clone())),
            LeaseRequest::List(reply) => reply.send(Err(error.clone())),
        }
    }
}

/// Bytes that a mutation counts in the queue.
pub(super) fn weight(mutation: &Mutation) -> usize {
    let value = match &mutation.change {
        Change::Put { value, .. } => value.len(),
        Change::Delete => 0,
    };
    REQUEST_BYTES + value
}

/// Answers a request that cannot be carried out.
pub(super) fn refuse(request: WriterRequest, error: &EngineError) {
    match request {
        WriterRequest::Commit(request) => request.answer(Err(error.clone())),
        WriterRequest::Compact(_, reply) | WriterRequest::NoteEdition(_, reply) => {
            reply.send(Err(error.clone()));
        }
        WriterRequest::Scrub(reply) => reply.send(Err(error.clone())),
        WriterRequest::Lease(request) => request.refuse(error),
        WriterRequest::Promote(defrag, _, reply) => {
            drop(defrag);
            reply.send(Err(error.clone()));
        }
        WriterRequest::Alarm(..) | WriterRequest::Close(_) => {}
    }
}
