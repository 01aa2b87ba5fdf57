//! Commits mutations as transactions: a comparison of the key's `mod_revision`, the change, and in
//! the failure branch a read of the current value (ST-77).

use std::time::Instant;

use actors::engine::{
    At, Change, EngineError, Event, EventKind, Expect, Key, LeaseId, Mutation, Origin, Outcome,
    Prepared, Revision,
};
use bytes::Bytes;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};

use super::call_error::CallError;
use super::cluster::Cluster;
use super::cluster_state::{Header, number, revision};
use super::events::key_value;
use super::servers::CallKind;
use crate::clock;

/// The largest value that is sent. A server accepts 1.5 MiB by default, and refuses larger values
/// itself.
const VALUE_BYTES_MAX: usize = 16 << 20;

impl Cluster {
    /// See [`actors::engine::DataEngine::commit`]. A commit is repeated only if it certainly had no
    /// effect.
    pub(super) async fn commit(&self, mutation: Mutation) -> Result<Outcome, EngineError> {
        let expected = match &mutation.expect {
            Expect::Absent => Some(Revision::ZERO),
            Expect::Unchanged(revision) => Some(*revision),
            Expect::LeftBy(ticket) => ticket.settled().await,
        };
        let is_delete = mutation.change == Change::Delete;
        let Some(expected) = expected.filter(|revision| !is_delete || *revision != Revision::ZERO)
        else {
            // An absent key cannot be deleted, and a void ticket stands for no state.
            let read = self.get(mutation.key, At::Latest).await?;
            return Ok(Outcome::Refused {
                current: read.item,
                revision: read.revision,
            });
        };
        if let Change::Put { value, .. } = &mutation.change
            && value.len() > VALUE_BYTES_MAX
        {
            let bytes = value.len();
            let text = format!("a value of {bytes} bytes; etcd takes {VALUE_BYTES_MAX} at most");
            return Err(EngineError::TooLarge(text));
        }
        let known = self.state.known();
        let transaction = transaction(&mutation, expected);
        let answer = self
            .servers
            .call(CallKind::WRITE, |member| {
                let (mut kv, transaction) = (member.kv(), transaction.clone());
                async move { kv.txn(transaction).await }
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(CallError::OutOfSpace(text)) => {
                let before = known.revision();
                return self.without_space(text, &mutation, expected, before).await;
            }
            Err(error) => return Err(commit_error(error, &mutation)),
        };
        let header = Header::from(answer.header());
        self.state.learn_linearizable(header, known, Instant::now());
        outcome(answer.0, mutation, expected)
    }

    /// The outcome of a commit that was answered with NOSPACE. A server that knows of it refuses
    /// before it compares. A server that notices it while it writes gives the same answer and has
    /// written. The key shows which of them answered. `before` is a revision seen before the
    /// transaction was sent.
    async fn without_space(
        &self,
        text: String,
        mutation: &Mutation,
        expected: Revision,
        before: Revision,
    ) -> Result<Outcome, EngineError> {
        let read = self.get(mutation.key.clone(), At::Latest);
        let Ok(read) = read.await else {
            return Err(EngineError::OutcomeUnknown(text));
        };
        let expected = Some(expected).filter(|revision| *revision != Revision::ZERO);
        let now = read.item.as_ref().map(|item| item.revision);
        let is_older = match now {
            Some(revision) => revision <= before,
            // A put would have left a value.
            None => mutation.change != Change::Delete,
        };
        if now == expected {
            Err(EngineError::OutOfSpace(text))
        } else if is_older {
            Ok(Outcome::Refused {
                current: read.item,
                revision: read.revision,
            })
        } else {
            Err(EngineError::OutcomeUnknown(text))
        }
    }
}

/// The transaction of a mutation whose key must be of the expected revision; 0 if it must be
/// absent.
fn transaction(mutation: &Mutation, expected: Revision) -> Txn {
    let key = mutation.key.as_bytes();
    // The key's revisions and version after the put, or before the delete; those of a new key are
    // known.
    let numbers = TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
    let then = match &mutation.change {
        Change::Put { value, lease } => {
            let options = PutOptions::new().with_lease(lease.0 as i64);
            let put = TxnOp::put(key, value.to_vec(), Some(options));
            match expected {
                Revision::ZERO => vec![put],
                _ => vec![put, numbers],
            }
        }
        Change::Delete => vec![numbers, TxnOp::delete(key, None)],
    };
    Txn::new()
        .when([Compare::mod_revision(
            key,
            CompareOp::Equal,
            number(expected),
        )])
        .and_then(then)
        .or_else([TxnOp::get(key, None)])
}

fn commit_error(error: CallError, mutation: &Mutation) -> EngineError {
    match (&error, &mutation.change) {
        (CallError::LeaseNotFound, Change::Put { lease, .. }) => EngineError::LeaseNotFound(*lease),
        _ => error.into_write_error(),
    }
}

/// The outcome of the transaction.
fn outcome(
    answer: PbTxnResponse,
    mutation: Mutation,
    expected: Revision,
) -> Result<Outcome, EngineError> {
    let at = answer.header.as_ref().map_or(0, |header| header.revision);
    let mut found = None;
    for response in answer.responses {
        if let Some(PbTxnOpResponse::ResponseRange(range)) = response.response {
            found = range.kvs.into_iter().next().map(key_value);
        }
    }
    if !answer.succeeded {
        return Ok(Outcome::Refused {
            current: found,
            revision: revision(at),
        });
    }
    let numbers = match (expected, found) {
        (Revision::ZERO, _) => Numbers {
            revision: revision(at),
            prev_revision: Revision::ZERO,
            create_revision: revision(at),
            version: 1,
        },
        (before, Some(found)) => Numbers {
            revision: revision(at),
            prev_revision: before,
            create_revision: found.create_revision,
            version: found.version,
        },
        // etcd never answers this. A server that does has still said that the transaction
        // succeeded.
        (_, None) => {
            let text = "etcd answered a transaction incompletely".to_owned();
            return Err(EngineError::OutcomeUnknown(text));
        }
    };
    let Mutation {
        key,
        change,
        origin,
        ..
    } = mutation;
    Ok(Outcome::Committed(event(key, change, numbers, origin)))
}

/// The revisions and the version of a key.
struct Numbers {
    revision: Revision,
    prev_revision: Revision,
    create_revision: Revision,
    version: u64,
}

fn event(key: Key, change: Change, numbers: Numbers, origin: Origin) -> Event {
    let (kind, value, lease, version) = match change {
        Change::Put { value, lease } => (EventKind::Put, value, lease, numbers.version),
        Change::Delete => (EventKind::Delete, Bytes::new(), LeaseId::default(), 0),
    };
    Event {
        revision: numbers.revision,
        key,
        kind,
        value,
        create_revision: numbers.create_revision,
        prev_revision: numbers.prev_revision,
        version,
        lease,
        time: clock::system_time(),
        origin,
        previous: None,
        prepared: Prepared::default(),
    }
}
