//! Reads of keys and ranges.

use std::cmp::Ordering;

use actors::engine::{At, DataEngine, Key, KeyValue, Prefix, RangeRequest, Revision};
use etcd_client::proto::{PbRangeRequest, PbRangeResponse};
use tonic::Status;

use super::message::{key_alone, key_value};
use crate::etcd_shim::key_range::KeyRange;
use crate::etcd_shim::status;
use crate::etcd_shim::store::Store;

/// The most bytes of values that one answer has. A message of gRPC ends at 4 GiB.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The numbers of orders and of what they are by.
const NO_ORDER: i32 = 0;
const FALLING: i32 = 2;
const BY_KEY: i32 = 0;

/// The result of a read.
#[derive(Debug)]
pub(in crate::etcd_shim) struct Read {
    /// The newest revision when it was read.
    pub(in crate::etcd_shim) revision: Revision,
    /// The items in the order of their keys.
    pub(in crate::etcd_shim) items: Vec<KeyValue>,
    /// The keys in the range, however many items were wanted.
    pub(super) count: u64,
}

/// Reads at most this many keys of a range; 0 is all.
///
/// # Errors
/// Those of etcd.
pub(in crate::etcd_shim) async fn read(
    store: &Store,
    range: &KeyRange,
    at: At,
    limit: usize,
) -> Result<Read, Status> {
    if let Some(key) = range.key() {
        let found = store.engine.get(Key::new(key), at).await;
        let found = found.map_err(status::of)?;
        return Ok(Read {
            revision: found.revision,
            count: u64::from(found.item.is_some()),
            items: found.item.into_iter().collect(),
        });
    }
    let prefix = range.prefix();
    let mut request = RangeRequest {
        prefix: prefix.clone(),
        start: Some(range.start().to_vec()),
        at,
        limit,
        count_only: range.is_empty(),
    };
    let mut page = store
        .engine
        .range(request.clone())
        .await
        .map_err(status::of)?;
    let revision = page.revision;
    // Further pages are of the same state.
    request.at = match at {
        At::Latest => At::Revision(revision),
        At::Revision(_) => at,
    };
    let behind = behind(store, range, &request).await?;
    let count = match range.is_empty() {
        true => 0,
        false => page.count.saturating_sub(behind),
    };
    let (mut items, mut bytes) = (Vec::new(), 0);
    loop {
        let last = page.items.last().map(|item| item.key.clone());
        let is_within = page
            .items
            .iter()
            .all(|item| range.contains(item.key.as_bytes()));
        let inside = page.items.into_iter();
        items.extend(
            inside
                .filter(|item| range.contains(item.key.as_bytes()))
                .inspect(|item| {
                    bytes += item.value.len() + item.key.as_bytes().len();
                }),
        );
        if bytes > ANSWER_BYTES_MAX {
            let text = "etcdserver: the answer is too large; read it with a limit";
            return Err(Status::resource_exhausted(text));
        }
        let Some(last) = last.filter(|_| page.more && is_within) else {
            break;
        };
        if limit > 0 {
            request.limit = limit.saturating_sub(items.len());
            if request.limit == 0 {
                break;
            }
        }
        request.start = Some([last.as_bytes(), b"\0"].concat());
        page = store
            .engine
            .range(request.clone())
            .await
            .map_err(status::of)?;
    }
    Ok(Read {
        revision,
        items,
        count,
    })
}

/// The number of keys that have the prefix of a range and follow it.
async fn behind(store: &Store, range: &KeyRange, first: &RangeRequest) -> Result<u64, Status> {
    let Some(end) = range.end_within_prefix().filter(|_| !range.is_empty()) else {
        return Ok(0);
    };
    let counted = store.engine.range(RangeRequest {
        prefix: Prefix::new(first.prefix.as_bytes()),
        start: Some(end.to_vec()),
        at: first.at,
        limit: 0,
        count_only: true,
    });
    Ok(counted.await.map_err(status::of)?.count)
}

/// Answers a read, whose own revision goes before this one.
///
/// # Errors
/// Those of etcd.
pub(super) async fn range(
    store: &Store,
    request: PbRangeRequest,
    at: At,
) -> Result<PbRangeResponse, Status> {
    let at = match u64::try_from(request.revision) {
        Ok(revision) if revision > 0 => At::Revision(Revision(revision)),
        _ => at,
    };
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let range = KeyRange::new(request.key.clone(), request.range_end.clone());
    if request.count_only {
        return count(store, &range, at).await;
    }
    let is_plain = request.sort_target == BY_KEY && request.sort_order != FALLING;
    let bounds = Bounds::of(&request);
    let found = match is_plain && bounds.is_none() {
        true => read(store, &range, at, limit).await?,
        false => {
            // Without an order etcd takes the first keys, and one more, and sorts those.
            let first = match request.sort_order == NO_ORDER && bounds.is_none() && limit > 0 {
                true => limit.saturating_add(1),
                false => 0,
            };
            let mut found = read(store, &range, at, first).await?;
            if let Some(bounds) = bounds {
                found.items.retain(|item| bounds.contain(item));
            }
            sort(&mut found.items, &request);
            found
        }
    };
    let wanted = match limit {
        0 => found.items.len(),
        limit => found.items.len().min(limit),
    };
    let more = match is_plain && bounds.is_none() {
        true => found.count > wanted as u64,
        false => found.items.len() > wanted,
    };
    let items = found.items.iter().take(wanted);
    Ok(PbRangeResponse {
        header: store.header(found.revision),
        kvs: match request.keys_only {
            true => items.map(key_alone).collect(),
            false => items.map(key_value).collect(),
        },
        more,
        count: found.count as i64,
    })
}

async fn count(store: &Store, range: &KeyRange, at: At) -> Result<PbRangeResponse, Status> {
    let (revision, count) = match range.key() {
        Some(_) => {
            let found = read(store, range, at, 1).await?;
            (found.revision, found.count)
        }
        None => {
            let mut request = RangeRequest {
                prefix: range.prefix(),
                start: Some(range.start().to_vec()),
                at,
                limit: 0,
                count_only: true,
            };
            let counted = store
                .engine
                .range(request.clone())
                .await
                .map_err(status::of)?;
            if at == At::Latest {
                request.at = At::Revision(counted.revision);
            }
            let behind = behind(store, range, &request).await?;
            let count = match range.is_empty() {
                true => 0,
                false => counted.count.saturating_sub(behind),
            };
            (counted.revision, count)
        }
    };
    Ok(PbRangeResponse {
        header: store.header(revision),
        count: count as i64,
        ..PbRangeResponse::default()
    })
}

/// The revisions that items must have.
#[derive(Clone, Copy)]
struct Bounds {
    created: (i64, i64),
    changed: (i64, i64),
}

impl Bounds {
    /// `None` if all items are wanted.
    fn of(request: &PbRangeRequest) -> Option<Bounds> {
        let most = |bound: i64| if bound == 0 { i64::MAX } else { bound };
        let given = [
            request.min_create_revision,
            request.max_create_revision,
            request.min_mod_revision,
            request.max_mod_revision,
        ];
        given.iter().any(|bound| *bound != 0).then(|| Bounds {
            created: (
                request.min_create_revision,
                most(request.max_create_revision),
            ),
            changed: (request.min_mod_revision, most(request.max_mod_revision)),
        })
    }

    fn contain(&self, item: &KeyValue) -> bool {
        let is_in = |revision: Revision, bounds: (i64, i64)| {
            let revision = crate::etcd_shim::store::number(revision);
            (bounds.0..=bounds.1).contains(&revision)
        };
        is_in(item.create_revision, self.created) && is_in(item.revision, self.changed)
    }
}

fn sort(items: &mut [KeyValue], request: &PbRangeRequest) {
    let compare = |one: &KeyValue, other: &KeyValue| -> Ordering {
        match request.sort_target {
            1 => one.version.cmp(&other.version),
            2 => one.create_revision.cmp(&other.create_revision),
            3 => one.revision.cmp(&other.revision),
            4 => one.value.cmp(&other.value),
            _ => one.key.cmp(&other.key),
        }
    };
    match request.sort_order {
        FALLING => items.sort_by(|one, other| compare(other, one)),
        NO_ORDER if request.sort_target == BY_KEY => {}
        _ => items.sort_by(compare),
    }
}
