//! Lists from a snapshot (storage.md 2.3, 2.4).

use std::sync::Arc;

use actors::engine::{Prefix, Revision};
use actors::snapshot::Snapshot;

use super::delegator::{Question, Route, route, served_by_store_while_filling};
use super::{Cached, Fresh};
use crate::storage::underlying::{plan, token_after};
use crate::storage::{Asked, ListRequest, ObjectList, Storage, StorageError, StorageErrorKind};

impl Cached {
    pub(super) async fn list(&self, request: ListRequest) -> Result<ObjectList, StorageError> {
        let prefix = self.store.keys.below(&request.key)?;
        let plan = plan(&request, &prefix).map_err(|kind| self.store.fault(&request.key, kind))?;
        let route = route(Question {
            asked: request.asked,
            version_match: request.version_match,
            limited: request.limit > 0,
            recursive: request.recursive,
            token: plan.token.as_ref().map(|token| token.revision),
        });
        let selects = !request.predicate.identity().is_empty();
        if self.published().is_err() {
            let below =
                route == Route::Store || served_by_store_while_filling(request.limit > 0, selects);
            return match below {
                true => self.store.get_list(request).await,
                false => Err(self.not_ready()),
            };
        }
        let start = plan.start.as_deref();
        let mut request = request;
        if request.asked == Asked::Any && route != Route::Store {
            // A limit has no effect beside version 0, not even on a later page (LI-46, PF-8).
            request.limit = 0;
        }
        match route {
            Route::Store => self.store.get_list(request).await,
            Route::AnyState => self.page(&request, &prefix, start, self.any_state()?),
            Route::NotOlderThan(revision) => {
                let fresh = self.not_older_than(revision).await?;
                self.page(&request, &prefix, start, fresh)
            }
            Route::Consistent => self.consistent_list(request, &prefix, start).await,
            Route::Exact(revision) => self.exact_list(request, &prefix, start, revision).await,
        }
    }

    /// A consistent list falls back to the store when the cache can't get there in time (LI-20).
    async fn consistent_list(
        &self,
        request: ListRequest,
        prefix: &Prefix,
        start: Option<&[u8]>,
    ) -> Result<ObjectList, StorageError> {
        match self.consistent().await {
            Ok(fresh) => {
                self.store.metrics.consistent_read(true, false);
                self.page(&request, prefix, start, fresh)
            }
            Err(error) if matches!(error.kind, StorageErrorKind::TooLarge { .. }) => {
                let answer = self.store.get_list(request).await;
                self.store.metrics.consistent_read(answer.is_ok(), true);
                answer
            }
            Err(error) => {
                self.store.metrics.consistent_read(false, false);
                Err(error)
            }
        }
    }

    /// The state at one revision: the snapshot's when no event of the resource lies between the
    /// two, else what the engine's history says.
    async fn exact_list(
        &self,
        request: ListRequest,
        prefix: &Prefix,
        start: Option<&[u8]>,
        revision: Revision,
    ) -> Result<ObjectList, StorageError> {
        if revision < self.store.engine.compacted() {
            return self.store.get_list(request).await;
        }
        let known = self.store.engine.known(&self.prefix());
        if revision > known.revision {
            self.not_older_than(revision).await?;
        }
        let position = self.store.engine.known(&self.prefix());
        let unchanged = position.prefix_revision <= revision;
        let snapshot = self.published()?;
        if unchanged && snapshot.revision >= position.prefix_revision {
            // The snapshot may already show an event after the position was read.
            if snapshot.last_event() <= revision {
                return self.page(&request, prefix, start, Fresh { snapshot, revision });
            }
        }
        self.store.get_list(request).await
    }

    /// A page of a snapshot; hasMore and the count look at raw objects, as the store does (LI-40).
    fn page(
        &self,
        request: &ListRequest,
        prefix: &Prefix,
        start: Option<&[u8]>,
        fresh: Fresh,
    ) -> Result<ObjectList, StorageError> {
        let Fresh { snapshot, revision } = fresh;
        if !request.recursive {
            return self.single(request, &snapshot, revision);
        }
        let mut items = Vec::new();
        let mut fetched = 0;
        let mut last = None;
        let mut objects = snapshot.range(prefix, start);
        for object in objects.by_ref() {
            fetched += 1;
            if request.predicate.matches(object) {
                items.push(Arc::clone(object));
                if request.limit > 0 && items.len() == request.limit {
                    last = Some(object.key.clone());
                    break;
                }
            }
        }
        let behind = last.filter(|_| objects.next().is_some());
        self.store.metrics.cache_list(fetched, items.len());
        let Some(last) = behind else {
            return Ok(ObjectList {
                revision,
                items,
                continue_token: None,
                remaining_item_count: None,
            });
        };
        let counted = request.predicate.identity().is_empty();
        let remaining = counted.then(|| 1 + objects.count() as u64);
        Ok(ObjectList {
            revision,
            items,
            continue_token: Some(token_after(prefix, last.as_bytes(), revision)),
            remaining_item_count: remaining,
        })
    }

    /// A list of the one object at a key (RG-2).
    fn single(
        &self,
        request: &ListRequest,
        snapshot: &Snapshot,
        revision: Revision,
    ) -> Result<ObjectList, StorageError> {
        let key = self.store.keys.object(&request.key)?;
        let object = snapshot.get(&key);
        let items: Vec<_> = object
            .filter(|object| request.predicate.matches(object))
            .cloned()
            .into_iter()
            .collect();
        self.store
            .metrics
            .cache_list(usize::from(object.is_some()), items.len());
        Ok(ObjectList {
            revision,
            items,
            continue_token: None,
            remaining_item_count: None,
        })
    }
}
