//! Transactions.
//!
//! The engine changes one key in one revision. So a transaction may compare and read as many keys
//! as it likes, and change one. One that would change several is refused before anything is done
//! (D-107). kube-apiserver has none of those.

use actors::engine::{At, Change, DataEngine, Key, KeyValue, Revision};
use etcd_client::proto::{
    PbCompare, PbResponseOp, PbTargetUnion, PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest,
    PbTxnRequestOp, PbTxnResponse,
};
use tonic::Status;

use super::read::{self, read};
use super::write;
use crate::etcd_shim::key_range::KeyRange;
use crate::etcd_shim::status;
use crate::etcd_shim::store::{Store, number};
use crate::etcd_shim::turns::Turn;

/// The targets of comparisons.
const BY_VERSION: i32 = 0;
const BY_CREATION: i32 = 1;
const BY_CHANGE: i32 = 2;
const BY_VALUE: i32 = 3;
const BY_LEASE: i32 = 4;

/// The one change of a branch.
struct Write {
    /// The number of its operation.
    number: usize,
    key: Vec<u8>,
    current: Option<KeyValue>,
    change: Change,
}

/// Carries out a transaction.
///
/// # Errors
/// Those of etcd, or UNIMPLEMENTED if it would change several keys.
pub(super) async fn run(store: &Store, request: PbTxnRequest) -> Result<PbTxnResponse, Status> {
    let turn = turn(store, &request).await;
    loop {
        if let Some(answer) = attempt(store, &turn, &request).await? {
            return Ok(answer);
        }
    }
}

/// Waits for the turn of the one key of a transaction, or of all keys.
async fn turn<'s>(store: &'s Store, request: &PbTxnRequest) -> Turn<'s> {
    match only_key(request) {
        Some(key) => store.turns.of_key(key).await,
        None => store.turns.of_all().await,
    }
}

/// The one key that a transaction is about.
fn only_key(request: &PbTxnRequest) -> Option<&[u8]> {
    let compared = request
        .compare
        .iter()
        .map(|one| (&*one.key, &*one.range_end));
    let branches = request.success.iter().chain(&request.failure);
    let used = branches.filter_map(|operation| match operation.request.as_ref()? {
        PbTxnOpRequest::RequestRange(one) => Some((&*one.key, &*one.range_end)),
        PbTxnOpRequest::RequestPut(one) => Some((&*one.key, &[][..])),
        PbTxnOpRequest::RequestDeleteRange(one) => Some((&*one.key, &*one.range_end)),
        PbTxnOpRequest::RequestTxn(_) => None,
    });
    let mut only = None;
    for (key, range_end) in compared.chain(used) {
        if !range_end.is_empty() || only.is_some_and(|only| only != key) {
            return None;
        }
        only = Some(key);
    }
    only
}

/// One attempt. `None` if a mutation that was left behind has come between.
async fn attempt(
    store: &Store,
    turn: &Turn<'_>,
    request: &PbTxnRequest,
) -> Result<Option<PbTxnResponse>, Status> {
    let now = store.revision().await?;
    // While the turn is held, nobody else changes what this transaction is about. The exception is
    // a mutation that was left behind, which the commit meets.
    let mut at = match turn {
        Turn::OfKey { .. } => At::Latest,
        Turn::OfAll { .. } => At::Revision(now),
    };
    let mut succeeded = true;
    for compare in &request.compare {
        if !holds(store, compare, at).await? {
            succeeded = false;
            break;
        }
    }
    let branch = match succeeded {
        true => &request.success,
        false => &request.failure,
    };
    check_revisions(store, branch, now)?;
    let write = only_write(store, branch, at).await?;
    let mut revision = None;
    let mut responses = Vec::with_capacity(branch.len());
    for (number, operation) in branch.iter().enumerate() {
        let written = match &write {
            Some(write) if write.number == number => {
                let (key, current) = (&write.key, write.current.as_ref());
                let event = write::commit(store, key, current, write.change.clone()).await?;
                let Some(event) = event else {
                    return Ok(None);
                };
                revision = Some(event.revision);
                // The rest of the branch sees the change.
                at = At::Revision(event.revision);
                Some(event)
            }
            _ => None,
        };
        let response = match operation.request.clone() {
            Some(PbTxnOpRequest::RequestRange(range)) => {
                PbTxnOpResponse::ResponseRange(read::range(store, range, at).await?)
            }
            Some(PbTxnOpRequest::RequestPut(put)) => {
                let current = write.as_ref().and_then(|write| write.current.as_ref());
                let Some(event) = written else { continue };
                let answer = write::put_answer(store, &event, put.prev_kv, current);
                PbTxnOpResponse::ResponsePut(answer)
            }
            Some(PbTxnOpRequest::RequestDeleteRange(delete)) => {
                let current = write.as_ref().and_then(|write| write.current.as_ref());
                let gone = current.filter(|_| written.is_some());
                let previous = gone.into_iter().filter(|_| delete.prev_kv);
                let count = i64::from(gone.is_some());
                let answer =
                    write::delete_answer(store, revision.unwrap_or(now), (count, previous));
                PbTxnOpResponse::ResponseDeleteRange(answer)
            }
            _ => continue,
        };
        responses.push(PbResponseOp {
            response: Some(response),
        });
    }
    let revision = match revision {
        Some(revision) => revision,
        // Not older than anything that was read.
        None => store.revision().await?,
    };
    Ok(Some(PbTxnResponse {
        header: store.header(revision),
        succeeded,
        responses,
    }))
}

/// Reads at revisions that can't be read are refused before anything is changed.
fn check_revisions(store: &Store, branch: &[PbTxnRequestOp], now: Revision) -> Result<(), Status> {
    for operation in branch {
        if let Some(PbTxnOpRequest::RequestRange(range)) = &operation.request
            && range.revision > 0
        {
            if range.revision > number(now) {
                return Err(status::future_revision());
            }
            if range.revision < number(store.engine.compacted()) {
                return Err(status::compacted());
            }
        }
    }
    Ok(())
}

/// The one change that a branch makes, if any.
async fn only_write(
    store: &Store,
    branch: &[PbTxnRequestOp],
    at: At,
) -> Result<Option<Write>, Status> {
    let mut only = None;
    for (number, operation) in branch.iter().enumerate() {
        let write = match operation.request.clone() {
            Some(PbTxnOpRequest::RequestPut(put)) => {
                let found = store.engine.get(Key::new(&put.key), at).await;
                let current = found.map_err(status::of)?.item;
                let key = put.key.clone();
                let change = write::change(put, current.as_ref())?;
                Some(Write {
                    number,
                    key,
                    current,
                    change,
                })
            }
            Some(PbTxnOpRequest::RequestDeleteRange(delete)) => {
                let range = KeyRange::new(delete.key, delete.range_end);
                let found = read(store, &range, at, 2).await?;
                if found.items.len() > 1 {
                    return Err(several());
                }
                found.items.into_iter().next().map(|item| Write {
                    number,
                    key: item.key.as_bytes().to_vec(),
                    current: Some(item),
                    change: Change::Delete,
                })
            }
            _ => None,
        };
        if let Some(write) = write
            && only.replace(write).is_some()
        {
            return Err(several());
        }
    }
    Ok(only)
}

fn several() -> Status {
    status::not_offered("transactions that change several keys")
}

/// Whether a comparison holds for all keys that it is about.
async fn holds(store: &Store, compare: &PbCompare, at: At) -> Result<bool, Status> {
    let range = KeyRange::new(compare.key.clone(), compare.range_end.clone());
    let found = read(store, &range, at, 0).await?;
    if found.items.is_empty() {
        // An absent key has no value to compare, and otherwise only zeros.
        return Ok(compare.target != BY_VALUE && holds_for(compare, None));
    }
    Ok(found
        .items
        .iter()
        .all(|item| holds_for(compare, Some(item))))
}

fn holds_for(compare: &PbCompare, item: Option<&KeyValue>) -> bool {
    let zero = || Revision::ZERO;
    let expected = match compare.target_union {
        Some(
            PbTargetUnion::Version(expected)
            | PbTargetUnion::CreateRevision(expected)
            | PbTargetUnion::ModRevision(expected)
            | PbTargetUnion::Lease(expected),
        ) => expected,
        _ => 0,
    };
    let ordering = match compare.target {
        BY_VERSION => item.map_or(0, |item| item.version as i64).cmp(&expected),
        BY_CREATION => {
            let created = item.map_or_else(zero, |item| item.create_revision);
            number(created).cmp(&expected)
        }
        BY_CHANGE => number(item.map_or_else(zero, |item| item.revision)).cmp(&expected),
        BY_LEASE => item.map_or(0, |item| item.lease.0 as i64).cmp(&expected),
        BY_VALUE => {
            let expected = match &compare.target_union {
                Some(PbTargetUnion::Value(value)) => value.as_slice(),
                _ => &[],
            };
            item.map_or(&[][..], |item| &item.value).cmp(expected)
        }
        _ => return false,
    };
    match compare.result {
        0 => ordering.is_eq(),
        1 => ordering.is_gt(),
        2 => ordering.is_lt(),
        3 => ordering.is_ne(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use actors::engine::LeaseId;

    use super::*;

    fn item() -> KeyValue {
        KeyValue {
            key: Key::new("k"),
            value: "v".into(),
            create_revision: Revision(3),
            revision: Revision(5),
            version: 2,
            lease: LeaseId(7),
        }
    }

    #[test]
    fn comparisons_are_by_every_target_and_result() {
        let numbers = [
            (BY_VERSION, PbTargetUnion::Version(2)),
            (BY_CREATION, PbTargetUnion::CreateRevision(3)),
            (BY_CHANGE, PbTargetUnion::ModRevision(5)),
            (BY_LEASE, PbTargetUnion::Lease(7)),
            (BY_VALUE, PbTargetUnion::Value(b"v".to_vec())),
        ];
        for (target, union) in numbers {
            let of = |result| PbCompare {
                result,
                target,
                target_union: Some(union.clone()),
                ..PbCompare::default()
            };
            let held = [0, 1, 2, 3, 4].map(|result| holds_for(&of(result), Some(&item())));
            assert_eq!(held, [true, false, false, false, false], "{target}");
            let absent = [0, 1, 2, 3].map(|result| holds_for(&of(result), None));
            assert_eq!(absent, [false, false, true, true], "{target}");
        }
    }

    #[test]
    fn a_transaction_about_one_key_takes_its_turn_alone() {
        let compare = PbCompare {
            key: b"a".to_vec(),
            ..PbCompare::default()
        };
        let mut request = PbTxnRequest {
            compare: vec![compare.clone()],
            ..PbTxnRequest::default()
        };
        assert_eq!(only_key(&request), Some(&b"a"[..]));
        request.compare.push(PbCompare {
            range_end: b"b".to_vec(),
            ..compare.clone()
        });
        assert_eq!(only_key(&request), None);
        request.compare = vec![
            compare.clone(),
            PbCompare {
                key: b"b".to_vec(),
                ..compare
            },
        ];
        assert_eq!(only_key(&request), None);
        assert_eq!(only_key(&PbTxnRequest::default()), None);
    }
}
