//! What etcd's errors mean for the call that met them. Pure.
//!
//! etcd says most of it in the text: compacted and future revisions and answers that are too
//! large all have the same code.

use actors::engine::{EngineError, LeaseId, Revision};
use etcd_client::Error;
use tonic::Code;

/// A call that failed, by what is known of its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The revision asked for is compacted.
    Compacted,
    /// The revision asked for has not happened yet, as far as the member knows.
    Future,
    /// The answer is larger than this side takes in one message.
    AnswerTooLarge,
    /// The request is larger than the server takes.
    TooLarge(String),
    /// The server's quota is used up (NOSPACE). A server that finds out while it makes a change
    /// says so too, and has made it.
    OutOfSpace(String),
    /// The lease is gone: nothing was done.
    LeaseNotFound,
    /// The server found its data damaged.
    Corrupt(String),
    /// The server will not do this for us, now or later: nothing was done.
    Denied(String),
    /// Nothing was done; another member, or this one in a moment, may do it.
    NotDone(String),
    /// It may or may not have been done.
    Unknown(String),
}

impl Fault {
    pub(super) fn of(error: &Error) -> Fault {
        match error {
            Error::GRpcStatus(status) => of_status(status),
            Error::InvalidArgs(text) => Fault::Denied(text.clone()),
            error => Fault::Unknown(error.to_string()),
        }
    }

    /// Whether the call may be made again, elsewhere or later; what has no effect may be repeated
    /// although it is not known what came of it.
    pub(super) fn may_be_tried_again(&self, has_effect: bool) -> bool {
        match self {
            Fault::NotDone(_) => true,
            Fault::Unknown(_) => !has_effect,
            _ => false,
        }
    }

    /// For a call without effect, or before one.
    pub(super) fn into_error(self) -> EngineError {
        match self {
            Fault::Unknown(text) => EngineError::Unavailable(text),
            fault => fault.of_effect(),
        }
    }

    /// For a call that changes something.
    pub(super) fn of_effect(self) -> EngineError {
        match self {
            Fault::Compacted => EngineError::Compacted {
                requested: Revision::ZERO,
                compacted: Revision::ZERO,
            },
            Fault::Future => EngineError::FutureRevision {
                requested: Revision::ZERO,
                current: Revision::ZERO,
            },
            Fault::AnswerTooLarge => {
                EngineError::TooLarge("the answer is too large for one message".to_owned())
            }
            Fault::TooLarge(text) => EngineError::TooLarge(text),
            Fault::OutOfSpace(text) => EngineError::OutOfSpace(text),
            Fault::LeaseNotFound => EngineError::LeaseNotFound(LeaseId::default()),
            Fault::Corrupt(text) => EngineError::Corrupt(text),
            Fault::Denied(text) | Fault::NotDone(text) => EngineError::Unavailable(text),
            Fault::Unknown(text) => EngineError::OutcomeUnknown(text),
        }
    }
}

/// What this side's own client says of a connection that will never be made again.
const DEAD_END: &str = "Service was not ready";

/// Whether the connection that a call was to be made on is of no use any more.
pub(super) fn is_dead_end(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains(DEAD_END))
}

fn of_status(status: &tonic::Status) -> Fault {
    let text = status.message();
    let says = |part: &str| text.contains(part);
    match status.code() {
        Code::OutOfRange if says("has been compacted") => Fault::Compacted,
        Code::OutOfRange if says("is a future revision") => Fault::Future,
        Code::OutOfRange if says("decoded message length") => Fault::AnswerTooLarge,
        Code::OutOfRange => Fault::TooLarge(text.to_owned()),
        Code::InvalidArgument if says("too large") => Fault::TooLarge(text.to_owned()),
        Code::ResourceExhausted if says("database space exceeded") => {
            Fault::OutOfSpace(text.to_owned())
        }
        Code::ResourceExhausted if says("larger than max") => Fault::TooLarge(text.to_owned()),
        // Too many requests wait already: this one was turned away.
        Code::ResourceExhausted => Fault::NotDone(text.to_owned()),
        Code::NotFound if says("lease not found") => Fault::LeaseNotFound,
        Code::DataLoss => Fault::Corrupt(text.to_owned()),
        Code::Unavailable | Code::Unknown if turned_away(text) => Fault::NotDone(reason(status)),
        Code::Unavailable if is_unsent(status) => Fault::NotDone(reason(status)),
        Code::PermissionDenied
        | Code::Unauthenticated
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::Unimplemented => Fault::Denied(text.to_owned()),
        _ => Fault::Unknown(reason(status)),
    }
}

/// What a server says before it has proposed anything to the others, and this side's own client
/// before it has sent anything.
fn turned_away(text: &str) -> bool {
    let before = [
        "etcdserver: no leader",
        "etcdserver: leader changed",
        "raft proposal dropped",
        DEAD_END,
    ];
    before.iter().any(|said| text.contains(said))
}

/// Whether there was no connection to send it on.
fn is_unsent(status: &tonic::Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The status and what caused it, down to the system's own words.
fn reason(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn fault(code: Code, text: &str) -> Fault {
        Fault::of(&Error::GRpcStatus(Status::new(code, text)))
    }

    #[test]
    fn one_code_has_three_meanings() {
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        assert_eq!(fault(Code::OutOfRange, compacted), Fault::Compacted);
        let future = "etcdserver: mvcc: required revision is a future revision";
        assert_eq!(fault(Code::OutOfRange, future), Fault::Future);
        let large = "Error, decoded message length too large: found 5000000 bytes";
        assert_eq!(fault(Code::OutOfRange, large), Fault::AnswerTooLarge);
    }

    #[test]
    fn a_write_is_repeated_only_where_nothing_can_have_been_done() {
        for (code, said) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: leader changed"),
            // It has no code of its own.
            (Code::Unknown, "raft proposal dropped"),
            (Code::Unknown, "Service was not ready: transport error"),
        ] {
            assert!(fault(code, said).may_be_tried_again(true), "{said}");
        }
        for said in [
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: request timed out",
            "connection reset",
        ] {
            let fault = fault(Code::Unavailable, said);
            assert!(!fault.may_be_tried_again(true), "{said}");
            assert!(fault.may_be_tried_again(false), "{said}");
            assert!(matches!(fault.of_effect(), EngineError::OutcomeUnknown(_)));
        }
        assert!(!fault(Code::DeadlineExceeded, "late").may_be_tried_again(true));
    }

    #[test]
    fn a_full_server_and_a_large_request_are_no_outages() {
        let full = fault(
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
        );
        assert!(matches!(full.into_error(), EngineError::OutOfSpace(_)));
        let large = fault(Code::InvalidArgument, "etcdserver: request is too large");
        assert!(matches!(large.into_error(), EngineError::TooLarge(_)));
        let lease = fault(Code::NotFound, "etcdserver: requested lease not found");
        assert_eq!(lease, Fault::LeaseNotFound);
    }
}
