//! Errors of gRPC, with the codes and texts that etcd's clients know.

use actors::engine::EngineError;
use tonic::Status;

/// The error that a client of etcd sees for one of the engine.
pub(super) fn of(error: EngineError) -> Status {
    match error {
        EngineError::Compacted { .. } => compacted(),
        EngineError::FutureRevision { .. } => future_revision(),
        EngineError::OutOfSpace(why) => {
            Status::resource_exhausted(format!("etcdserver: mvcc: database space exceeded ({why})"))
        }
        EngineError::LeaseNotFound(_) => lease_not_found(),
        EngineError::TooLarge(_) => request_too_large(),
        EngineError::Corrupt(what) => Status::data_loss(format!("etcdserver: {what}")),
        // Clients must not take it for a failure. etcd says the same when its disk hangs.
        EngineError::OutcomeUnknown(why) => {
            Status::unavailable(format!("etcdserver: request timed out ({why})"))
        }
        EngineError::Closed => Status::unavailable("etcdserver: server stopped"),
        EngineError::Unavailable(why) | EngineError::Refused(why) => {
            Status::unavailable(format!("etcdserver: {why}"))
        }
    }
}

/// The revision is compacted.
pub(super) fn compacted() -> Status {
    Status::out_of_range("etcdserver: mvcc: required revision has been compacted")
}

/// The revision has not happened yet.
pub(super) fn future_revision() -> Status {
    Status::out_of_range("etcdserver: mvcc: required revision is a future revision")
}

/// The lease is unknown.
pub(super) fn lease_not_found() -> Status {
    Status::not_found("etcdserver: requested lease not found")
}

/// The time to live is longer than a lease may have.
pub(super) fn lease_too_long() -> Status {
    Status::out_of_range("etcdserver: too large lease TTL")
}

/// The request is larger than the flag allows.
pub(super) fn request_too_large() -> Status {
    Status::invalid_argument("etcdserver: request is too large")
}

/// The key is empty.
pub(super) fn empty_key() -> Status {
    Status::invalid_argument("etcdserver: key is not provided")
}

/// The value of an absent key should stay.
pub(super) fn key_not_found() -> Status {
    Status::invalid_argument("etcdserver: key not found")
}

/// The order is unknown.
pub(super) fn invalid_sort_option() -> Status {
    Status::invalid_argument("etcdserver: invalid sort option")
}

/// A value that should stay is given all the same.
pub(super) fn value_provided() -> Status {
    Status::invalid_argument("etcdserver: value is provided")
}

/// A lease that should stay is given all the same.
pub(super) fn lease_provided() -> Status {
    Status::invalid_argument("etcdserver: lease is provided")
}

/// The transaction has more operations than the flag allows.
pub(super) fn too_many_operations() -> Status {
    Status::invalid_argument("etcdserver: too many operations in txn request")
}

/// The transaction writes a key twice.
pub(super) fn duplicate_key() -> Status {
    Status::invalid_argument("etcdserver: duplicate key given in txn request")
}

/// The service is unknown here.
pub(super) fn not_offered(what: &str) -> Status {
    Status::unimplemented(format!(
        "taffrail in the place of etcd does not offer {what}"
    ))
}
