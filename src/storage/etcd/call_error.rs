//! Classifies the errors of etcd by what they mean for the call. Pure.
//!
//! etcd says most of it in the text. Compacted revisions, future revisions and too large answers
//! have the same code.

use actors::engine::{EngineError, LeaseId, Revision};
use etcd_client::Error;
use tonic::Code;

/// Why a call failed, and whether it may have had an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The requested revision is compacted.
    Compacted,
    /// The requested revision is in the future, as far as the member knows.
    FutureRevision,
    /// The answer is larger than this side accepts in one message.
    AnswerTooLarge,
    /// The request is larger than the server accepts.
    TooLarge(String),
    /// The server's quota is used up (NOSPACE). A server that notices this while it writes says so
    /// too, and has written.
    OutOfSpace(String),
    /// The lease does not exist. Nothing was done.
    LeaseNotFound,
    /// The server found its data damaged.
    Corrupt(String),
    /// The server will never do this for us. Nothing was done.
    Denied(String),
    /// Nothing was done. Another member, or a retry, may succeed.
    NotDone(String),
    /// The effect is unknown.
    Unknown(String),
}

impl CallError {
    /// Classifies an error of the client.
    pub(super) fn of(error: &Error) -> CallError {
        match error {
            Error::GRpcStatus(status) => of_status(status),
            Error::InvalidArgs(text) => CallError::Denied(text.clone()),
            error => CallError::Unknown(error.to_string()),
        }
    }

    /// Whether the call may be repeated, elsewhere or later. A read may be repeated even if its
    /// result is unknown.
    pub(super) fn may_be_tried_again(&self, is_write: bool) -> bool {
        match self {
            CallError::NotDone(_) => true,
            CallError::Unknown(_) => !is_write,
            _ => false,
        }
    }

    /// Adds the server's name to the error.
    pub(super) fn at(self, url: &str) -> CallError {
        match self {
            CallError::NotDone(text) => CallError::NotDone(format!("etcd at {url}: {text}")),
            CallError::Unknown(text) => CallError::Unknown(format!("etcd at {url}: {text}")),
            CallError::Denied(text) => CallError::Denied(format!("etcd at {url}: {text}")),
            error => error,
        }
    }

    /// The engine's error of a call that only reads.
    pub(super) fn into_read_error(self) -> EngineError {
        match self {
            CallError::Unknown(text) => EngineError::Unavailable(text),
            error => error.into_write_error(),
        }
    }

    /// The engine's error of a call that writes.
    pub(super) fn into_write_error(self) -> EngineError {
        match self {
            CallError::Compacted => EngineError::Compacted {
                requested: Revision::ZERO,
                compacted: Revision::ZERO,
            },
            CallError::FutureRevision => EngineError::FutureRevision {
                requested: Revision::ZERO,
                current: Revision::ZERO,
            },
            CallError::AnswerTooLarge => {
                EngineError::TooLarge("the answer is too large for one message".to_owned())
            }
            CallError::TooLarge(text) => EngineError::TooLarge(text),
            CallError::OutOfSpace(text) => EngineError::OutOfSpace(text),
            CallError::LeaseNotFound => EngineError::LeaseNotFound(LeaseId::default()),
            CallError::Corrupt(text) => EngineError::Corrupt(text),
            CallError::Denied(text) | CallError::NotDone(text) => EngineError::Unavailable(text),
            CallError::Unknown(text) => EngineError::OutcomeUnknown(text),
        }
    }
}

/// The client's message about a connection that it will never make again.
const DEAD_END: &str = "Service was not ready";

/// Whether the call's connection is useless from now on.
pub(super) fn is_dead_end(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains(DEAD_END))
}

fn of_status(status: &tonic::Status) -> CallError {
    let text = status.message();
    let says = |part: &str| text.contains(part);
    match status.code() {
        Code::OutOfRange if says("has been compacted") => CallError::Compacted,
        Code::OutOfRange if says("is a future revision") => CallError::FutureRevision,
        Code::OutOfRange if says("decoded message length") => CallError::AnswerTooLarge,
        Code::OutOfRange => CallError::TooLarge(text.to_owned()),
        Code::InvalidArgument if says("too large") => CallError::TooLarge(text.to_owned()),
        Code::ResourceExhausted if says("database space exceeded") => {
            CallError::OutOfSpace(text.to_owned())
        }
        Code::ResourceExhausted if says("larger than max") => CallError::TooLarge(text.to_owned()),
        // Too many requests wait already. This one was rejected.
        Code::ResourceExhausted => CallError::NotDone(text.to_owned()),
        Code::NotFound if says("lease not found") => CallError::LeaseNotFound,
        Code::DataLoss => CallError::Corrupt(text.to_owned()),
        Code::Unavailable | Code::Unknown if turned_away(text) => {
            CallError::NotDone(reason(status))
        }
        Code::Unavailable if is_unsent(status) => CallError::NotDone(reason(status)),
        Code::PermissionDenied
        | Code::Unauthenticated
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::Unimplemented => CallError::Denied(text.to_owned()),
        _ => CallError::Unknown(reason(status)),
    }
}

/// Whether a server says this before it has proposed anything, or the client before it has sent
/// anything.
fn turned_away(text: &str) -> bool {
    let before = [
        "etcdserver: no leader",
        "etcdserver: leader changed",
        "raft proposal dropped",
        DEAD_END,
    ];
    before.iter().any(|said| text.contains(said))
}

/// Whether there was no connection to send the call on.
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

    fn error(code: Code, text: &str) -> CallError {
        CallError::of(&Error::GRpcStatus(Status::new(code, text)))
    }

    #[test]
    fn one_code_has_three_meanings() {
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        assert_eq!(error(Code::OutOfRange, compacted), CallError::Compacted);
        let future = "etcdserver: mvcc: required revision is a future revision";
        assert_eq!(error(Code::OutOfRange, future), CallError::FutureRevision);
        let large = "Error, decoded message length too large: found 5000000 bytes";
        assert_eq!(error(Code::OutOfRange, large), CallError::AnswerTooLarge);
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
            assert!(error(code, said).may_be_tried_again(true), "{said}");
        }
        for said in [
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: request timed out",
            "connection reset",
        ] {
            let error = error(Code::Unavailable, said);
            assert!(!error.may_be_tried_again(true), "{said}");
            assert!(error.may_be_tried_again(false), "{said}");
            assert!(matches!(
                error.into_write_error(),
                EngineError::OutcomeUnknown(_)
            ));
        }
        assert!(!error(Code::DeadlineExceeded, "late").may_be_tried_again(true));
    }

    #[test]
    fn a_full_server_and_a_large_request_are_no_outages() {
        let full = error(
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
        );
        assert!(matches!(full.into_read_error(), EngineError::OutOfSpace(_)));
        let large = error(Code::InvalidArgument, "etcdserver: request is too large");
        assert!(matches!(large.into_read_error(), EngineError::TooLarge(_)));
        let lease = error(Code::NotFound, "etcdserver: requested lease not found");
        assert_eq!(lease, CallError::LeaseNotFound);
    }
}
