//! A Cacher without an actor. The store, the cache's content and the ring change only when a test
//! says so.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::{FaultyEngine, OneLiners, key, prefix};
use crate::cacher::{CacheContent, CacherHandle, NewValue, Update, WatchCache};
use crate::dispatcher::{Caller, StartPoint, WatchStart, Watcher};
use crate::engine::{At, DataEngine, Event, EventKind, Key, RangeRequest, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::{RingBudget, RingLimits};
use crate::snapshot::Snapshot;
use crate::watch::WatchInterest;

/// A Cacher without an actor.
pub struct FakeCacher {
    pub engine: Arc<FaultyEngine>,
    pub cacher: CacherHandle,
    content: RefCell<CacheContent>,
}

impl FakeCacher {
    /// A ready cache without objects.
    pub fn new(ring_bytes: usize) -> FakeCacher {
        let fake = FakeCacher::unfilled(ring_bytes);
        fake.fill();
        fake
    }

    /// A cache that is not filled yet.
    pub fn unfilled(ring_bytes: usize) -> FakeCacher {
        let budget = RingBudget::new(RingLimits {
            per_resource_bytes: ring_bytes,
            total_bytes: usize::MAX,
        });
        FakeCacher::within(&budget)
    }

    /// A cache that is not filled yet and shares a budget with others.
    pub fn within(budget: &Arc<RingBudget>) -> FakeCacher {
        let watch_cache = WatchCache::new("things".to_owned(), prefix(), budget);
        let engine = FaultyEngine::new();
        // The engine follows the position of a prefix from the first request on.
        engine.known(&prefix());
        FakeCacher {
            engine,
            cacher: CacherHandle {
                watch_cache,
                first_use: None,
            },
            content: RefCell::default(),
        }
    }

    /// Fills the cache with the content of the store, in a new generation.
    pub fn fill(&self) {
        self.read_store();
        let snapshot = self.content.borrow().snapshot();
        self.cacher.watch_cache.replace(snapshot);
    }

    /// As [`FakeCacher::fill`], as when the store was reset.
    pub fn reset(&self) {
        self.read_store();
        let snapshot = self.content.borrow().snapshot();
        self.cacher.watch_cache.reset(snapshot);
    }

    fn read_store(&self) {
        let request = RangeRequest {
            prefix: prefix(),
            start: None,
            at: At::Latest,
            limit: 0,
            count_only: false,
        };
        let page = self.engine.range_now(request);
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        for item in &page.items {
            match OneLiners.decode(&item.key, item.revision, &item.value) {
                Ok(object) => objects.push(Arc::new(object)),
                Err(error) => unreadable.push((item.key.clone(), Arc::new(error))),
            }
        }
        let mut content = self.content.borrow_mut();
        let snapshot = Snapshot::of(objects, page.revision);
        content.replace(snapshot.with_unreadable(unreadable));
    }

    /// Fills the cache with these values, which are not in the store.
    pub fn fill_with(&self, values: impl Iterator<Item = (String, String)>) {
        self.fill_indexed(values, Vec::new());
    }

    /// As [`FakeCacher::fill_with`], with an index of these fields.
    pub fn fill_indexed(&self, values: impl Iterator<Item = (String, String)>, places: Vec<u32>) {
        let mut objects: Vec<Arc<CachedObject>> =
            values.map(|(name, value)| decoded(&name, value)).collect();
        objects.sort_by(|one, other| one.key().cmp(other.key()));
        let mut content = self.content.borrow_mut();
        let snapshot = Snapshot::of(objects, self.engine.revision());
        content.replace(snapshot.indexed_by(places));
        self.cacher.watch_cache.replace(content.snapshot());
    }

    /// Decodes updates for [`FakeCacher::apply`], which are not in the store.
    pub fn prepare(&self, values: &[(String, String)]) -> Batch {
        let objects = values
            .iter()
            .map(|(name, value)| decoded(name, value.clone()));
        Batch(objects.collect())
    }

    /// Applies a batch to the cache.
    pub fn apply(&self, batch: Batch) {
        let mut content = self.content.borrow_mut();
        let mut newest = content.revision();
        let updates = batch.0.into_iter().map(|object| {
            newest = newest.next();
            Update {
                revision: newest,
                key: Key::new(object.key()),
                value: NewValue::Object(object),
            }
        });
        let updates = updates.collect();
        let changes = content.apply(updates, newest);
        self.cacher.watch_cache.publish(changes, content.snapshot());
    }

    /// Abandons the cache, as when its Cacher ends.
    pub fn abandon(&self) {
        self.cacher.watch_cache.abandon(None);
    }

    /// A write that is applied to the cache at once.
    pub fn put(&self, name: &str, value: &str) -> Revision {
        let revision = self.engine.put(&key(name), value);
        self.publish();
        revision
    }

    /// A deletion that is applied to the cache at once.
    pub fn delete(&self, name: &str) -> Revision {
        let revision = self.engine.delete(&key(name));
        self.publish();
        revision
    }

    /// Applies all events that the cache has not seen yet, as one batch.
    pub fn publish(&self) {
        let mut content = self.content.borrow_mut();
        let events = self.engine.events_after(content.revision());
        let updates = events
            .iter()
            .filter(|event| prefix().covers(&event.key))
            .map(update);
        let newest = events.last().map_or(Revision::ZERO, |event| event.revision);
        let changes = content.apply(updates.collect(), newest);
        self.cacher.watch_cache.publish(changes, content.snapshot());
    }

    /// A watch without bookmarks, for an hour.
    pub fn start(&self, from: StartPoint, interest: WatchInterest) -> WatchStart {
        WatchStart {
            cacher: self.cacher.clone(),
            engine: self.engine.clone(),
            decode: Arc::new(OneLiners),
            interest,
            from,
            bookmarks: false,
            deadline: Instant::now() + Duration::from_secs(3600),
        }
    }
}

/// Decoded objects for a cache.
pub struct Batch(Vec<Arc<CachedObject>>);

fn decoded(name: &str, value: String) -> Arc<CachedObject> {
    let decoded = OneLiners.decode(&key(name), Revision(1), &value.into());
    Arc::new(decoded.unwrap())
}

fn update(event: &Event) -> Update {
    let value = match event.kind {
        EventKind::Put => match OneLiners.decode(&event.key, event.revision, &event.value) {
            Ok(object) => NewValue::Object(Arc::new(object)),
            Err(error) => NewValue::Unreadable(Arc::new(error)),
        },
        EventKind::Delete => NewValue::Deleted,
    };
    Update {
        revision: event.revision,
        key: event.key.clone(),
        value,
    }
}

/// The frames that a watcher has given.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    pub lines: Vec<String>,
    pub has_ended: bool,
}

/// Polls a watcher until it waits or ends.
pub fn receive(watcher: &mut Watcher) -> Received {
    let context = Context::from_waker(Waker::noop());
    receive_as(watcher, &Caller::task(&context))
}

/// As [`receive`], polled by this caller, which stops at a frame that says that nothing follows.
pub fn receive_as(watcher: &mut Watcher, caller: &Caller<'_>) -> Received {
    let mut lines = Vec::new();
    let has_ended = loop {
        match watcher.poll_next(caller) {
            Poll::Ready(Some(frame)) => {
                lines.push(String::from_utf8_lossy(&frame.bytes).into_owned());
                if frame.is_last_for_now {
                    break false;
                }
            }
            Poll::Ready(None) => break true,
            Poll::Pending => break false,
        }
    };
    Received { lines, has_ended }
}

/// How often other tasks run before a watcher that was not woken counts as having nothing more to
/// fetch. Its read of history may wait for reads of other watchers.
pub const YIELDS_MAX: usize = 100;

/// A waker that records that it was called.
#[derive(Default)]
pub struct WakeFlag(AtomicBool);

impl WakeFlag {
    /// Whether it was called since the last call of this.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls a watcher, while its reads of history continue, until nothing more comes.
pub async fn receive_all(watcher: &mut Watcher) -> Received {
    let wake_flag = Arc::new(WakeFlag::default());
    let waker = Waker::from(Arc::clone(&wake_flag));
    let caller = Caller::task(&Context::from_waker(&waker));
    let mut all = receive_as(watcher, &caller);
    while !all.has_ended {
        let mut turns = 0;
        while !wake_flag.take() {
            if turns == YIELDS_MAX {
                return all;
            }
            turns += 1;
            tokio::task::yield_now().await;
        }
        let more = receive_as(watcher, &caller);
        all.lines.extend(more.lines);
        all.has_ended = more.has_ended;
    }
    all
}
