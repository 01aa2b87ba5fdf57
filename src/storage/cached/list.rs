//! Lists from a snapshot (storage.md 2.3, 2.4).

use std::sync::Arc;

use actors::engine::local::PageStart;
use actors::engine::{Key, Prefix, Revision};
use actors::snapshot::{Snapshot, Stored};

use super::delegator::{Question, Route, route, served_by_store_while_filling};
use super::{Cached, Fresh};
use crate::storage::underlying::{plan, token_after};
use crate::storage::{Asked, ListRequest, ObjectList, Storage, StorageError, StorageErrorKind};

/// How many objects are read before other tasks run. It takes well below a millisecond.
const TURN_OBJECTS: usize = 500;

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
        let is_from_store = served_by_store_while_filling(request.limit > 0, selects)
            && route == Route::Consistent
            && plan.token.is_none();
        if is_from_store && self.cacher.is_unused() {
            // A search through all resources of a namespace fills no cache of an empty one.
            let list = self.store.get_list(request).await?;
            if !list.items.is_empty() {
                self.cacher.begin_use();
            }
            return Ok(list);
        }
        self.in_use().await;
        if self.published().is_err() {
            let below =
                route == Route::Store || served_by_store_while_filling(request.limit > 0, selects);
            return match below {
                true => self.store.get_list(request).await,
                false => Err(self.not_ready()),
            };
        }
        let route = match route {
            Route::Consistent if !self.can_catch_up() => Route::Store,
            Route::Exact(wanted) | Route::NotOlderThan(wanted) if self.is_beyond_reach(wanted) => {
                Route::Store
            }
            route => route,
        };
        let start = plan.start.as_deref();
        let mut request = request;
        if request.asked == Asked::Any && route != Route::Store {
            // With version 0 a limit has no effect, not even on a later page (LI-46, PF-8).
            request.limit = 0;
        }
        match route {
            Route::Store => self.store.get_list(request).await,
            Route::AnyState => self.page(&request, &prefix, start, self.any_state()?).await,
            Route::NotOlderThan(revision) => {
                let fresh = self.not_older_than(revision).await?;
                self.page(&request, &prefix, start, fresh).await
            }
            Route::Consistent => self.consistent_list(request, &prefix, start).await,
            Route::Exact(revision) => self.exact_list(request, &prefix, start, revision).await,
        }
    }

    /// A consistent list falls back to the store when the cache does not catch up in time (LI-20).
    async fn consistent_list(
        &self,
        request: ListRequest,
        prefix: &Prefix,
        start: Option<&[u8]>,
    ) -> Result<ObjectList, StorageError> {
        match self.consistent().await {
            Ok(fresh) => {
                self.store.metrics.consistent_read(true, false);
                self.page(&request, prefix, start, fresh).await
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

    /// The state at one revision. Either a snapshot was kept for the list's next page, or nothing
    /// has changed up to the newest snapshot, or the ring's events since are undone, or the
    /// engine's history answers.
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
        if let Some(snapshot) = self.kept.find(revision, self.bounds()) {
            let fresh = Fresh { snapshot, revision };
            return self.page(&request, prefix, start, fresh).await;
        }
        let known = self.store.engine.known(self.prefix());
        if revision > known.revision {
            self.not_older_than(revision).await?;
        }
        let position = self.store.engine.known(self.prefix());
        let unchanged = position.prefix_revision <= revision;
        let snapshot = self.published()?;
        if unchanged && snapshot.revision >= position.prefix_revision {
            // The snapshot may contain an event after the position that was read.
            if snapshot.last_event() <= revision {
                let fresh = Fresh { snapshot, revision };
                return self.page(&request, prefix, start, fresh).await;
            }
        }
        let epoch = self.store.engine.epoch();
        match self.cacher.snapshot_at(revision).await {
            Some(snapshot) if snapshot.epoch == epoch => {
                let fresh = Fresh { snapshot, revision };
                self.page(&request, prefix, start, fresh).await
            }
            _ => self.store.get_list(request).await,
        }
    }

    /// A page of a snapshot. hasMore and the count are about all objects, as with the store
    /// (LI-40). Other tasks run in between, however many objects there are.
    async fn page(
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
        for stored in snapshot.candidates(prefix, start, &*request.predicate) {
            // An unreadable value ends the page that would contain it. Earlier pages are served
            // (PF-20).
            let object = stored.map_err(|error| self.unreadable(error))?;
            fetched += 1;
            if request.predicate.matches(object) {
                items.push(Arc::clone(object));
                if request.limit > 0 && items.len() == request.limit {
                    last = Some(Key::new(object.key()));
                    break;
                }
            }
            if fetched % TURN_OBJECTS == 0 {
                tokio::task::yield_now().await;
            }
        }
        let is_followed = |last: &Key| {
            let behind = [last.as_bytes(), b"\0"].concat();
            snapshot.range(prefix, Some(&behind)).next().is_some()
        };
        let behind = last.filter(is_followed);
        self.store.metrics.cache_list(fetched, items.len());
        let Some(last) = behind else {
            return Ok(ObjectList {
                revision,
                items,
                continue_token: None,
                remaining_item_count: None,
            });
        };
        self.kept.keep(revision, &snapshot, self.bounds());
        let remaining_item_count = match request.predicate.identity().is_empty() {
            true => {
                let page = Page {
                    revision,
                    start,
                    fetched,
                    last: last.as_bytes(),
                };
                Some(self.remaining(&snapshot, prefix, &page).await)
            }
            false => None,
        };
        Ok(ObjectList {
            revision,
            items,
            continue_token: Some(token_after(prefix, last.as_bytes(), revision)),
            remaining_item_count,
        })
    }

    /// The number of values after a page. The first page subtracts from what the snapshot knows,
    /// and leaves the rest for the next one. Values are counted only for a page whose predecessor
    /// was forgotten, or was read from another daemon.
    async fn remaining(&self, snapshot: &Snapshot, prefix: &Prefix, page: &Page<'_>) -> u64 {
        let place = |start: Vec<u8>| PageStart {
            prefix: prefix.as_bytes().to_vec(),
            start,
            at: page.revision,
            epoch: snapshot.epoch,
        };
        let behind = place([page.last, b"\0"].concat());
        let from_start = match page.start {
            None if prefix == self.prefix() => Some(snapshot.stored() as u64),
            None => Some(snapshot.stored_below(prefix)),
            Some(start) => self.counts.find(&place(start.to_vec())),
        };
        let remaining = match from_start {
            Some(count) => count.saturating_sub(page.fetched as u64),
            None => counted(snapshot.range(prefix, Some(&behind.start))).await,
        };
        self.counts.remember(behind, remaining);
        remaining
    }

    /// A list of the one object at a key (RG-2).
    fn single(
        &self,
        request: &ListRequest,
        snapshot: &Snapshot,
        revision: Revision,
    ) -> Result<ObjectList, StorageError> {
        let key = self.store.keys.object(&request.key)?;
        if let Some(error) = snapshot.unreadable(&key) {
            return Err(self.unreadable(error));
        }
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

/// A page that has others after it.
struct Page<'p> {
    revision: Revision,
    start: Option<&'p [u8]>,
    /// The number of values in it.
    fetched: usize,
    /// Its last key.
    last: &'p [u8],
}

/// Counts values. Other tasks run in between.
async fn counted(stored: impl Iterator<Item = Stored<'_>>) -> u64 {
    let mut count = 0;
    for _ in stored {
        count += 1;
        // Counting is much cheaper than selecting.
        if count % (8 * TURN_OBJECTS) == 0 {
            tokio::task::yield_now().await;
        }
    }
    count as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actors::engine::{Engine, MemoryEngine, Origin, Retention};
    use actors::supervisor::{ActorSystem, ActorSystemConfig};
    use futures_util::FutureExt;

    use crate::api::object::Object;
    use crate::api::selector::Selection;
    use crate::kinds::definitions::core::configmaps;
    use crate::storage::factory::{Engines, StorageFactory, StorageOptions};
    use crate::storage::transformer::Identity;

    use super::*;

    fn list(key: &str, limit: usize, continue_token: Option<String>) -> ListRequest {
        ListRequest {
            key: key.to_owned(),
            recursive: true,
            asked: Asked::Unset,
            version_match: None,
            limit,
            continue_token,
            predicate: Arc::new(Selection::default()),
        }
    }

    #[test]
    fn a_long_list_leaves_the_thread_its_turns_and_counts_what_follows_li_40() {
        const OBJECTS: usize = 10 * TURN_OBJECTS;
        actix_rt::System::new().block_on(async {
            let engine: Arc<dyn Engine> = MemoryEngine::new();
            let factory =
                StorageFactory::new(StorageOptions::default(), vec![configmaps().into()]).unwrap();
            let engines = Engines::of(engine.clone());
            let plan = factory.plans(&engines, &Identity).unwrap().remove(0);
            let retention = Retention {
                age: Duration::from_secs(3600),
                bytes: 1 << 30,
            };
            let config = ActorSystemConfig::of(engine.clone(), retention);
            let actor_system = ActorSystem::start(config, vec![plan.cacher_spec()]).unwrap();
            actor_system.all_ready().await;
            let storage = plan.build(&actor_system).storage;
            for number in 0..OBJECTS {
                let mut object = Object::default();
                object.set_type("ConfigMap", "v1");
                let (namespace, name) = (["a", "b"][number % 2], format!("c{number:05}"));
                object.set_meta("name", &name);
                object.set_meta("namespace", namespace);
                let key = format!("/configmaps/{namespace}/{name}");
                let created = storage.create(&key, object.into(), Origin::default());
                created.await.unwrap();
            }
            // The cache has caught up with this one.
            let mut page = storage
                .get_list(list("/configmaps", 7, None))
                .await
                .unwrap();
            let mut seen = page.items.len();
            for _ in 0..3 {
                let token = page.continue_token.take();
                assert_eq!(page.remaining_item_count, Some((OBJECTS - seen) as u64));
                let next = list("/configmaps", 7, token);
                page = storage.get_list(next).await.unwrap();
                seen += page.items.len();
            }
            let within = storage
                .get_list(list("/configmaps/b", 7, None))
                .await
                .unwrap();
            assert_eq!(within.remaining_item_count, Some((OBJECTS / 2 - 7) as u64));

            let mut any_state = list("/configmaps", 0, None);
            any_state.asked = Asked::Any;
            let mut listing = storage.get_list(any_state);
            let mut turns = 0;
            let all = loop {
                match listing.as_mut().now_or_never() {
                    Some(list) => break list.unwrap(),
                    None => turns += 1,
                }
            };
            assert_eq!((all.items.len(), turns), (OBJECTS, 10));
            actor_system.stop().await;
        });
    }
}
