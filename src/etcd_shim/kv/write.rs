//! Puts and deletions.

use actors::engine::{
    At, Change, DataEngine, Event, Expect, Key, KeyValue, LeaseId, Mutation, Origin, Outcome,
    Prepared, Revision,
};
use bytes::Bytes;
use etcd_client::proto::{PbDeleteRequest, PbDeleteResponse, PbPutRequest, PbPutResponse};
use futures_util::future::join_all;
use tonic::Status;

use super::message::key_value;
use super::read::read;
use crate::etcd_shim::key_range::KeyRange;
use crate::etcd_shim::status;
use crate::etcd_shim::store::Store;

/// How many deletions of a range share a commit.
const DELETED_TOGETHER: usize = 256;

/// The change of a put to a key with this value.
///
/// # Errors
/// If a value or a lease should stay, and the key is absent.
pub(super) fn change(request: PbPutRequest, current: Option<&KeyValue>) -> Result<Change, Status> {
    if (request.ignore_value || request.ignore_lease) && current.is_none() {
        return Err(status::key_not_found());
    }
    let value = match current {
        Some(current) if request.ignore_value => current.value.clone(),
        _ => Bytes::from(request.value),
    };
    let lease = match current {
        Some(current) if request.ignore_lease => current.lease,
        _ => LeaseId(request.lease as u64),
    };
    Ok(Change::Put { value, lease })
}

/// Changes a key whose value is this one. `None` if it is another one by now: a caller that has
/// gone away may have left a mutation under way.
///
/// # Errors
/// Those of etcd.
pub(super) async fn commit(
    store: &Store,
    key: &[u8],
    current: Option<&KeyValue>,
    change: Change,
) -> Result<Option<Event>, Status> {
    let mutation = Mutation {
        key: Key::new(key),
        expect: match current {
            Some(current) => Expect::Unchanged(current.revision),
            None => Expect::Absent,
        },
        change,
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    match store.engine.commit(mutation).await.map_err(status::of)? {
        Outcome::Committed(event) => Ok(Some(event)),
        Outcome::Refused { .. } => Ok(None),
    }
}

/// Carries out a put.
///
/// # Errors
/// Those of etcd.
pub(super) async fn put(store: &Store, request: PbPutRequest) -> Result<PbPutResponse, Status> {
    let _turn = store.turns.of_key(&request.key).await;
    loop {
        let found = store.engine.get(Key::new(&request.key), At::Latest).await;
        let current = found.map_err(status::of)?.item;
        let change = change(request.clone(), current.as_ref())?;
        let committed = commit(store, &request.key, current.as_ref(), change).await?;
        if let Some(event) = committed {
            return Ok(put_answer(store, &event, request.prev_kv, current.as_ref()));
        }
    }
}

/// The answer to a put.
pub(super) fn put_answer(
    store: &Store,
    event: &Event,
    prev_kv: bool,
    current: Option<&KeyValue>,
) -> PbPutResponse {
    PbPutResponse {
        header: store.header(event.revision),
        prev_kv: current.filter(|_| prev_kv).map(key_value),
    }
}

/// Carries out a deletion. Each key of a range is deleted at a revision of its own (D-107).
///
/// # Errors
/// Those of etcd. Some keys may be deleted then.
pub(super) async fn delete(
    store: &Store,
    request: PbDeleteRequest,
) -> Result<PbDeleteResponse, Status> {
    let range = KeyRange::new(request.key, request.range_end);
    let _turn = match range.key() {
        Some(key) => store.turns.of_key(key).await,
        None => store.turns.of_all().await,
    };
    let found = read(store, &range, At::Latest, 0).await?;
    let (mut revision, mut deleted) = (found.revision, 0);
    for items in found.items.chunks(DELETED_TOGETHER) {
        let deletions = items.iter().map(|item| delete_one(store, item));
        for event in join_all(deletions).await {
            if let Some(event) = event? {
                revision = revision.max(event.revision);
                deleted += 1;
            }
        }
    }
    let previous = found.items.iter().filter(|_| request.prev_kv);
    Ok(delete_answer(store, revision, (deleted, previous)))
}

/// Deletes a key as long as there is one. `None` if it has gone.
async fn delete_one(store: &Store, item: &KeyValue) -> Result<Option<Event>, Status> {
    let mut current = item.clone();
    loop {
        let key = current.key.clone();
        let deleted = commit(store, key.as_bytes(), Some(&current), Change::Delete).await?;
        if deleted.is_some() {
            return Ok(deleted);
        }
        let found = store
            .engine
            .get(key, At::Latest)
            .await
            .map_err(status::of)?;
        match found.item {
            Some(item) => current = item,
            None => return Ok(None),
        }
    }
}

/// The answer to a deletion of this many keys, which had these values.
pub(super) fn delete_answer<'k>(
    store: &Store,
    revision: Revision,
    deleted: (i64, impl Iterator<Item = &'k KeyValue>),
) -> PbDeleteResponse {
    PbDeleteResponse {
        header: store.header(revision),
        deleted: deleted.0,
        prev_kvs: deleted.1.map(key_value).collect(),
    }
}
