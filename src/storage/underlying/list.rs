//! Lists served by the engine (storage.md 2.2, 2.4, 2.5).

use std::sync::Arc;
use std::time::Instant;

use actors::engine::{At, EngineError, Key, Prefix, RangeRequest, RangeResponse, Revision};
use actors::object::CachedObject;

use super::Underlying;
use crate::api::continuation::Continuation;
use crate::storage::{
    Asked, Expired, ListRequest, ObjectList, StorageError, StorageErrorKind, VersionMatch,
};

/// The most keys that a range reads because of selectors (LI-12).
const PAGE_KEYS_MAX: usize = 10_000;

/// A list request, with its token and version parsed.
pub(in crate::storage) struct Plan {
    /// The state to read.
    pub at: At,
    /// The revision that the store must have reached. Otherwise the request is "too large".
    pub not_older_than: Option<Revision>,
    /// The first key to read.
    pub start: Option<Vec<u8>>,
    /// The page's token, if it has one.
    pub token: Option<Continuation>,
}

/// Interprets a list request (the table of storage.md 2.2). `prefix` is that of its keys.
pub(in crate::storage) fn plan(
    request: &ListRequest,
    prefix: &Prefix,
) -> Result<Plan, StorageErrorKind> {
    let token = request
        .continue_token
        .as_deref()
        .filter(|_| request.recursive);
    let Some(token) = token else {
        let (at, not_older_than) = match (request.asked, request.version_match) {
            (Asked::Unset | Asked::Any, _) => (At::Latest, None),
            (Asked::At(revision), Some(VersionMatch::Exact)) => {
                (At::Revision(revision), Some(revision))
            }
            // A limit without a match means an exact version, as before matches existed (PF-9).
            (Asked::At(revision), None) if request.limit > 0 && request.recursive => {
                (At::Revision(revision), Some(revision))
            }
            (Asked::At(revision), _) => (At::Latest, Some(revision)),
        };
        return Ok(Plan {
            at,
            not_older_than,
            start: None,
            token: None,
        });
    };
    let continuation = Continuation::decode(token).map_err(StorageErrorKind::BadRequest)?;
    if matches!(request.asked, Asked::At(_)) {
        return Err(StorageErrorKind::BadRequest(
            "specifying resource version is not allowed when using continue".to_owned(),
        ));
    }
    let at = match u64::try_from(continuation.revision) {
        Ok(revision) => At::Revision(Revision(revision)),
        // A negative version continues at the newest state (LI-43).
        Err(_) => At::Latest,
    };
    let mut start = prefix.as_bytes().to_vec();
    start.extend_from_slice(continuation.start.trim_start_matches('/').as_bytes());
    Ok(Plan {
        at,
        not_older_than: None,
        start: Some(start),
        token: Some(continuation),
    })
}

/// The token that continues after a key (LI-41): the key relative to the list's prefix, and a NUL
/// byte, so that the next page begins with the next key.
pub(in crate::storage) fn token_after(prefix: &Prefix, key: &[u8], revision: Revision) -> String {
    let relative = key.get(prefix.as_bytes().len()..).unwrap_or_default();
    Continuation {
        revision: i64::try_from(revision.0).unwrap_or(i64::MAX),
        start: format!("{}\0", String::from_utf8_lossy(relative)),
    }
    .encode()
}

/// A page that is being filled.
#[derive(Default)]
struct Page {
    items: Vec<Arc<CachedObject>>,
    fetched: usize,
    /// The last key read, and the number of keys after it.
    last: Vec<u8>,
    remaining: u64,
    revision: Revision,
}

impl Underlying {
    pub(in crate::storage) async fn list(
        &self,
        request: ListRequest,
    ) -> Result<ObjectList, StorageError> {
        if !request.recursive {
            return self.list_one(request).await;
        }
        let prefix = self.keys.below(&request.key)?;
        let plan = plan(&request, &prefix).map_err(|kind| self.fault(&request.key, kind))?;
        let mut page = Page::default();
        let filled = self.fill(&mut page, &request, &prefix, &plan).await;
        // Failed lists are counted too (ME-14).
        self.metrics.store_list(page.fetched, page.items.len());
        filled?;
        let more = page.remaining > 0;
        let continue_token = more.then(|| token_after(&prefix, &page.last, page.revision));
        let counts = more && request.predicate.identity().is_empty();
        Ok(ObjectList {
            revision: page.revision,
            items: page.items,
            continue_token,
            remaining_item_count: counts.then_some(page.remaining),
        })
    }

    /// Reads pages, all at the first one's revision (LI-13), until the limit is reached or no keys
    /// remain. With selectors each page is twice as large as the one before (LI-12).
    async fn fill(
        &self,
        page: &mut Page,
        request: &ListRequest,
        prefix: &Prefix,
        plan: &Plan,
    ) -> Result<(), StorageError> {
        let (mut at, mut start) = (plan.at, plan.start.clone());
        let mut keys = request.limit;
        loop {
            let answer = self.range(prefix, start.take(), at, keys, plan).await?;
            if page.revision == Revision::ZERO {
                if let Some(wanted) = plan.not_older_than {
                    self.check_reached(&prefix.to_string(), wanted, answer.revision, 0)?;
                }
                page.revision = match at {
                    At::Latest => answer.revision,
                    At::Revision(revision) => revision,
                };
                at = At::Revision(page.revision);
            }
            let read = answer.items.len() as u64;
            if read == 0 && answer.count > 0 {
                let text = "no keys were found, but the count says that some remain".to_owned();
                return Err(self.fault(&prefix.to_string(), StorageErrorKind::Internal(text)));
            }
            for (index, item) in answer.items.iter().enumerate() {
                let object = self.object_of(item)?;
                page.fetched += 1;
                page.last = item.key.as_bytes().to_vec();
                if request.predicate.matches(&object) {
                    page.items.push(object);
                }
                if request.limit > 0 && page.items.len() == request.limit {
                    page.remaining = answer.count.saturating_sub(index as u64 + 1);
                    return Ok(());
                }
            }
            if answer.count <= read {
                return Ok(());
            }
            let mut next = page.last.clone();
            next.push(0);
            start = Some(next);
            keys = keys.saturating_mul(2).min(PAGE_KEYS_MAX.max(request.limit));
        }
    }

    async fn range(
        &self,
        prefix: &Prefix,
        start: Option<Vec<u8>>,
        at: At,
        limit: usize,
        plan: &Plan,
    ) -> Result<RangeResponse, StorageError> {
        let started = Instant::now();
        let answer = self
            .engine
            .range(RangeRequest {
                prefix: prefix.clone(),
                start,
                at,
                limit,
                count_only: false,
            })
            .await;
        self.metrics.request("list", started, answer.is_ok());
        answer.map_err(|error| match (&error, &plan.token) {
            (EngineError::Compacted { .. }, Some(token)) => {
                // Continues at the newest state, without consistency (LI-51).
                let fresh = Continuation {
                    revision: -1,
                    start: token.start.clone(),
                };
                let what = Expired::Continue {
                    fresh_token: Some(fresh.encode()),
                };
                self.fault(&prefix.to_string(), StorageErrorKind::Expired { what })
            }
            _ => self.engine_fault(&prefix.to_string(), error),
        })
    }

    /// Lists the one object at a key (RG-2). Tokens are ignored here (LI-31).
    async fn list_one(&self, request: ListRequest) -> Result<ObjectList, StorageError> {
        let key = self.keys.object(&request.key)?;
        let found = self.find(&request, &key).await;
        let fetched = matches!(found, Ok((Some(_), _)));
        let mut list = found.map(|(object, revision)| ObjectList {
            revision,
            items: object.into_iter().collect(),
            continue_token: None,
            remaining_item_count: None,
        });
        if let Ok(list) = &mut list {
            let matches = |object: &Arc<CachedObject>| request.predicate.matches(object);
            list.items.retain(matches);
        }
        let returned = list.as_ref().map_or(0, |list| list.items.len());
        self.metrics.store_list(usize::from(fetched), returned);
        list
    }

    /// The object at a key, and the revision of the state read.
    async fn find(
        &self,
        request: &ListRequest,
        key: &Key,
    ) -> Result<(Option<Arc<CachedObject>>, Revision), StorageError> {
        let (at, not_older_than) = match (request.asked, request.version_match) {
            (Asked::At(revision), Some(VersionMatch::Exact)) => {
                (At::Revision(revision), Some(revision))
            }
            (Asked::At(revision), _) => (At::Latest, Some(revision)),
            _ => (At::Latest, None),
        };
        let answer = self.fetch(key, at).await?;
        if let Some(wanted) = not_older_than {
            self.check_reached(&key.to_text(), wanted, answer.revision, 0)?;
        }
        let object = answer.item.map(|item| self.object_of(&item)).transpose()?;
        let revision = match at {
            At::Latest => answer.revision,
            At::Revision(revision) => revision,
        };
        Ok((object, revision))
    }
}
