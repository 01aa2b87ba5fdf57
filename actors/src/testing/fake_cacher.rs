//! One resource as its Cacher publishes it, step by step, without actors: the store, the cache's
//! content and the ring move only when a test says so.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::{FaultyEngine, OneLiners, key, prefix};
use crate::cacher::{CacheContent, CacherHandle, NewValue, Update, WatchCache};
use crate::dispatcher::{Caller, StartPoint, WatchStart, Watcher};
use crate::engine::{At, DataEngine, Event, EventKind, RangeRequest, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::{RingBudget, RingLimits};
use crate::snapshot::Snapshot;
use crate::watch::WatchInterest;

/// See the module's documentation.
pub struct FakeCacher {
    pub engine: Arc<FaultyEngine>,
    pub cacher: CacherHandle,
    content: RefCell<CacheContent>,
}

impl FakeCacher {
    /// An empty resource that is ready.
    pub fn new(ring_bytes: usize) -> FakeCacher {
        let fake = FakeCacher::unfilled(ring_bytes);
        fake.fill();
        fake
    }

    /// A resource that has not been filled yet.
    pub fn unfilled(ring_bytes: usize) -> FakeCacher {
        let budget = RingBudget::new(RingLimits {
            per_resource_bytes: ring_bytes,
            total_bytes: usize::MAX,
        });
        let watch_cache = WatchCache::new("things".to_owned(), prefix(), budget);
        let engine = FaultyEngine::new();
        // A prefix is followed from the first question about it on.
        engine.known(&prefix());
        FakeCacher {
            engine,
            cacher: CacherHandle { watch_cache },
            content: RefCell::default(),
        }
    }

    /// Fills the cache with what the store has, in a new generation.
    pub fn fill(&self) {
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
        self.cacher.watch_cache.replace(content.snapshot());
    }

    /// Fills the cache with these values, past the store.
    pub fn fill_with(&self, values: impl Iterator<Item = (String, String)>) {
        let mut objects: Vec<Arc<CachedObject>> =
            values.map(|(name, value)| decoded(&name, value)).collect();
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        let mut content = self.content.borrow_mut();
        content.replace(Snapshot::of(objects, self.engine.revision()));
        self.cacher.watch_cache.replace(content.snapshot());
    }

    /// Decodes updates that [`FakeCacher::apply`] takes in, past the store.
    pub fn prepare(&self, values: &[(String, String)]) -> Batch {
        let objects = values
            .iter()
            .map(|(name, value)| decoded(name, value.clone()));
        Batch(objects.collect())
    }

    /// The cache learns of a batch.
    pub fn apply(&self, batch: Batch) {
        let mut content = self.content.borrow_mut();
        let mut newest = content.revision();
        let updates = batch.0.into_iter().map(|object| {
            newest = newest.next();
            Update {
                revision: newest,
                key: object.key.clone(),
                value: NewValue::Object(object),
            }
        });
        let updates = updates.collect();
        let changes = content.apply(updates, newest);
        self.cacher.watch_cache.publish(changes, content.snapshot());
    }

    /// The Cacher dies.
    pub fn abandon(&self) {
        self.cacher.watch_cache.abandon(None);
    }

    /// A write that the cache learns of at once.
    pub fn put(&self, name: &str, value: &str) -> Revision {
        let revision = self.engine.put(&key(name), value);
        self.publish();
        revision
    }

    /// A deletion that the cache learns of at once.
    pub fn delete(&self, name: &str) -> Revision {
        let revision = self.engine.delete(&key(name));
        self.publish();
        revision
    }

    /// The cache learns of everything that it has not seen yet, as one batch.
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

    /// A watch without bookmarks that lasts.
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

/// Objects on their way into a cache.
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

/// What a watcher has to say now.
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

/// As [`receive`], polled by this caller, who believes a frame that says there is nothing more.
pub fn receive_as(watcher: &mut Watcher, caller: &Caller<'_>) -> Received {
    let mut lines = Vec::new();
    let has_ended = loop {
        match watcher.poll_next(caller) {
            Poll::Ready(Some(frame)) => {
                lines.push(String::from_utf8_lossy(&frame.bytes).into_owned());
                if frame.rests {
                    break false;
                }
            }
            Poll::Ready(None) => break true,
            Poll::Pending => break false,
        }
    };
    Received { lines, has_ended }
}

/// So often others run before a watcher that was not woken is taken to have nothing more to fetch:
/// its read of history may wait for reads of other watchers.
pub const YIELDS_MAX: usize = 100;

/// Notes that it was called.
#[derive(Default)]
pub struct WakeFlag(AtomicBool);

impl WakeFlag {
    /// Whether it was called since this was asked last.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls a watcher, letting its reads of history go on, until nothing more comes.
pub async fn receive_all(watcher: &mut Watcher) -> Received {
    let called = Arc::new(WakeFlag::default());
    let waker = Waker::from(Arc::clone(&called));
    let caller = Caller::task(&Context::from_waker(&waker));
    let mut all = receive_as(watcher, &caller);
    while !all.has_ended {
        let mut turns = 0;
        while !called.take() {
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
