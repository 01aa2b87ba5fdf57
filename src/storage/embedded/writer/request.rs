//! What the writer may be asked to do, and how it answers.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    Change, EngineError, Expiry, Lease, LeaseId, Maintenance, Mutation, Outcome, Revision,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::storage::embedded::defrag::Defrag;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::maintenance_state::HeldMaintenance;
use crate::storage::embedded::readers::ReaderPool;
use crate::storage::embedded::store::Store;

/// Bytes that a request counts in the queue, beside its value.
pub(super) const REQUEST_BYTES: usize = 1024;

/// What the writer may be asked to do.
pub enum WriterRequest {
    /// Decide and store a mutation.
    Commit(CommitRequest),
    /// Forget the past up to a revision.
    Compact(Revision, Reply<()>),
    /// Remove some of what was compacted.
    Scrub(Reply<Maintenance>),
    /// Do something about leases.
    Lease(LeaseRequest),
    /// Put a rebuilt file in the log's place; it comes back if it can't be done yet.
    Promote(
        Box<Defrag>,
        HeldMaintenance,
        Reply<(Promotion, HeldMaintenance)>,
    ),
    /// A reader found this database broken.
    Alarm(Arc<Store>, Failure),
    /// Finish; the readers are stopped first.
    Close(Arc<ReaderPool>),
}

/// A mutation and who waits for it.
pub struct CommitRequest {
    pub(super) mutation: Mutation,
    pub(super) answer: oneshot::Sender<Result<Outcome, EngineError>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl CommitRequest {
    pub(super) fn answer(self, outcome: Result<Outcome, EngineError>) {
        // Nobody may be waiting any more; the mutation counts all the same.
        let _ = self.answer.send(outcome);
    }
}

/// An answer to whoever waits, and the place in the queue that ends with it.
pub struct Reply<T> {
    pub(super) answer: oneshot::Sender<Result<T, EngineError>>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<T> Reply<T> {
    pub(super) fn send(self, result: Result<T, EngineError>) {
        // Nobody may be waiting any more.
        let _ = self.answer.send(result);
    }
}

/// What became of a promotion.
pub enum Promotion {
    /// The rebuilt file is the log now; the old database is to be dropped where that may take
    /// its time.
    Done(Option<Arc<Store>>),
    /// Writers were faster: copy on and ask again.
    Later(Box<Defrag>),
    /// The copy does not match and is of no use.
    Useless,
}

/// What the writer may be asked to do about leases.
pub enum LeaseRequest {
    /// Grant one that lives so long.
    Grant(Duration, Reply<Lease>),
    /// Revoke one and delete some of its keys; the answer is whether there are more.
    Revoke(LeaseId, Reply<bool>),
    /// Delete more keys of one that was revoked.
    GoOnRevoking(LeaseId, Reply<bool>),
    /// Delete some of the keys that have outlived theirs.
    Expire(Reply<Expiry>),
}

impl LeaseRequest {
    /// Answers a request that can't be carried out.
    pub(super) fn refuse(self, error: &EngineError) {
        match self {
            LeaseRequest::Grant(_, reply) => reply.send(Err(error.clone())),
            LeaseRequest::Revoke(_, reply) | LeaseRequest::GoOnRevoking(_, reply) => {
                reply.send(Err(error.clone()));
            }
            LeaseRequest::Expire(reply) => reply.send(Err(error.clone())),
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

/// Answers a request that can't be carried out.
pub(super) fn refuse(request: WriterRequest, error: &EngineError) {
    match request {
        WriterRequest::Commit(request) => request.answer(Err(error.clone())),
        WriterRequest::Compact(_, reply) => reply.send(Err(error.clone())),
        WriterRequest::Scrub(reply) => reply.send(Err(error.clone())),
        WriterRequest::Lease(request) => request.refuse(error),
        WriterRequest::Promote(defrag, _, reply) => {
            drop(defrag);
            reply.send(Err(error.clone()));
        }
        WriterRequest::Alarm(..) | WriterRequest::Close(_) => {}
    }
}
