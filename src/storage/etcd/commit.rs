//! Mutations as transactions: a compare of the key's `mod_revision`, the change, and the current
//! value from the failure branch (ST-77).

use std::time::SystemTime;

use actors::engine::{
    Change, EngineError, Event, EventKind, Expect, Key, Lease, LeaseId, Mutation, Outcome, Revision,
};
use bytes::Bytes;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};

use super::Shared;
use super::events::key_value;
use super::fault::Fault;
use super::seen::{Header, number, revision};
use super::servers::Manner;

/// What is larger is not even sent. A server takes 1.5 MiB unless it was told otherwise, and says
/// so itself.
const VALUE_BYTES_MAX: usize = 16 << 20;

impl Shared {
    /// See [`actors::engine::DataEngine::commit`]. It is sent again only where it certainly was not
    /// done: what came of the others nobody knows.
    pub(super) async fn commit(&self, mutation: Mutation) -> Result<Outcome, EngineError> {
        if mutation.expect == Expect::Absent && mutation.change == Change::Delete {
            // There is nothing to delete under an absent key.
            let read = self.get(mutation.key, actors::engine::At::Latest).await?;
            return Ok(Outcome::Refused {
                current: read.item,
                revision: read.revision,
            });
        }
        if let Change::Put { value, .. } = &mutation.change
            && value.len() > VALUE_BYTES_MAX
        {
            let bytes = value.len();
            let text = format!("a value of {bytes} bytes; etcd takes {VALUE_BYTES_MAX} at most");
            return Err(EngineError::TooLarge(text));
        }
        let floor = self.seen.floor();
        let transaction = transaction(&mutation);
        let answer = self
            .servers
            .call(Manner::CHANGE, |member| {
                let (mut kv, transaction) = (member.kv(), transaction.clone());
                async move { kv.txn(transaction).await }
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(Fault::OutOfSpace(text)) => {
                return self.without_space(text, &mutation, floor.revision()).await;
            }
            Err(fault) => return Err(of_commit(fault, &mutation)),
        };
        self.note_linearizable(Header::from(answer.header()), floor);
        outcome(answer.0, mutation)
    }

    /// A server refuses what it has no space for before it compares anything; one that finds out
    /// only while it makes a change answers the same and has made it. The key tells which:
    /// `before` is a revision that was seen before the change was sent.
    async fn without_space(
        &self,
        text: String,
        mutation: &Mutation,
        before: Revision,
    ) -> Result<Outcome, EngineError> {
        let read = self.get(mutation.key.clone(), actors::engine::At::Latest);
        let Ok(read) = read.await else {
            return Err(EngineError::OutcomeUnknown(text));
        };
        let expected = match mutation.expect {
            Expect::Absent => None,
            Expect::Unchanged(revision) => Some(revision),
        };
        let now = read.item.as_ref().map(|item| item.revision);
        let is_older = match now {
            Some(revision) => revision <= before,
            // A put would have left something.
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

    /// See [`actors::engine::LeaseEngine::grant`]; whole seconds, rounded up.
    pub(super) async fn grant(&self, ttl: std::time::Duration) -> Result<Lease, EngineError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let answer = self
            .servers
            // One that was granted and not heard of runs out by itself.
            .call(Manner::READ, |member| {
                let mut leases = member.lease.clone();
                async move { leases.grant(seconds, None).await }
            })
            .await
            .map_err(Fault::into_error)?;
        Ok(Lease {
            id: LeaseId(answer.id() as u64),
            ttl: std::time::Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or_default()),
        })
    }

    /// See [`actors::engine::LeaseEngine::revoke`].
    pub(super) async fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        let id = lease.0 as i64;
        let answer = self
            .servers
            .call(Manner::CHANGE, |member| {
                let mut leases = member.lease.clone();
                async move { leases.revoke(id).await }
            })
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(Fault::LeaseNotFound) => Err(EngineError::LeaseNotFound(lease)),
            Err(fault) => Err(fault.of_effect()),
        }
    }
}

fn transaction(mutation: &Mutation) -> Txn {
    let key = mutation.key.as_bytes();
    let expected = match mutation.expect {
        Expect::Absent => 0,
        Expect::Unchanged(revision) => number(revision),
    };
    // The key's own numbers beside its new value, or before they go; a new key's are known.
    let numbers = TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
    let then = match &mutation.change {
        Change::Put { value, lease } => {
            let options = PutOptions::new().with_lease(lease.0 as i64);
            let put = TxnOp::put(key, value.to_vec(), Some(options));
            match mutation.expect {
                Expect::Absent => vec![put],
                Expect::Unchanged(_) => vec![put, numbers],
            }
        }
        Change::Delete => vec![numbers, TxnOp::delete(key, None)],
    };
    Txn::new()
        .when([Compare::mod_revision(key, CompareOp::Equal, expected)])
        .and_then(then)
        .or_else([TxnOp::get(key, None)])
}

fn of_commit(fault: Fault, mutation: &Mutation) -> EngineError {
    match (&fault, &mutation.change) {
        (Fault::LeaseNotFound, Change::Put { lease, .. }) => EngineError::LeaseNotFound(*lease),
        _ => fault.of_effect(),
    }
}

/// What the transaction came to.
fn outcome(answer: PbTxnResponse, mutation: Mutation) -> Result<Outcome, EngineError> {
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
    let numbers = match (mutation.expect, found) {
        (Expect::Absent, _) => Numbers {
            revision: revision(at),
            prev_revision: Revision::ZERO,
            create_revision: revision(at),
            version: 1,
        },
        (Expect::Unchanged(before), Some(found)) => Numbers {
            revision: revision(at),
            prev_revision: before,
            create_revision: found.create_revision,
            version: found.version,
        },
        // No etcd says that; whoever does has said, too, that it was done.
        (Expect::Unchanged(_), None) => {
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

/// What etcd says of a key beside its value.
struct Numbers {
    revision: Revision,
    prev_revision: Revision,
    create_revision: Revision,
    version: u64,
}

fn event(key: Key, change: Change, numbers: Numbers, origin: actors::engine::Origin) -> Event {
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
        time: SystemTime::now(),
        origin,
        previous: None,
    }
}
