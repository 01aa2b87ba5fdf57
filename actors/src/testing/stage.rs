//! One resource as its Cacher publishes it, step by step, without actors: the store, the cache's
//! content and the ring move only when a test says so.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::{FaultyEngine, OneLiners, key, prefix};
use crate::cacher::{CacherHandle, Content, Shared, Store, Update};
use crate::dispatcher::{Caller, StartPoint, WatchStart, Watcher};
use crate::engine::{At, DataEngine, Event, EventKind, RangeRequest, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::{RingBudget, RingLimits};
use crate::snapshot::Snapshot;
use crate::watch::WatchInterest;

/// See the module's documentation.
pub struct Stage {
    pub engine: Arc<FaultyEngine>,
    pub cacher: CacherHandle,
    store: RefCell<Store>,
}

impl Stage {
    /// An empty resource that is ready.
    pub fn new(ring_bytes: usize) -> Stage {
        let stage = Stage::unfilled(ring_bytes);
        stage.fill();
        stage
    }

    /// A resource that has not been filled yet.
    pub fn unfilled(ring_bytes: usize) -> Stage {
        let budget = RingBudget::new(RingLimits {
            per_resource_bytes: ring_bytes,
            total_bytes: usize::MAX,
        });
        let shared = Shared::new("things".to_owned(), prefix(), budget);
        let engine = FaultyEngine::new();
        // A prefix is followed from the first question about it on.
        engine.known(&prefix());
        Stage {
            engine,
            cacher: CacherHandle { shared },
            store: RefCell::default(),
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
        let mut store = self.store.borrow_mut();
        let snapshot = Snapshot::of(objects, page.revision);
        store.replace(snapshot.with_unreadable(unreadable));
        self.cacher.shared.replace(store.snapshot());
    }

    /// Fills the cache with these values, past the store.
    pub fn fill_with(&self, values: impl Iterator<Item = (String, String)>) {
        let mut objects: Vec<Arc<CachedObject>> =
            values.map(|(name, value)| decoded(&name, value)).collect();
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        let mut store = self.store.borrow_mut();
        store.replace(Snapshot::of(objects, self.engine.revision()));
        self.cacher.shared.replace(store.snapshot());
    }

    /// Decodes updates that [`Stage::apply`] takes in, past the store.
    pub fn prepare(&self, values: &[(String, String)]) -> Batch {
        let objects = values
            .iter()
            .map(|(name, value)| decoded(name, value.clone()));
        Batch(objects.collect())
    }

    /// The cache learns of a batch.
    pub fn apply(&self, batch: Batch) {
        let mut store = self.store.borrow_mut();
        let mut newest = store.revision();
        let updates = batch.0.into_iter().map(|object| {
            newest = newest.next();
            Update {
                revision: newest,
                key: object.key.clone(),
                content: Content::Object(object),
            }
        });
        let updates = updates.collect();
        let changes = store.apply(updates, newest);
        self.cacher.shared.publish(changes, store.snapshot());
    }

    /// The Cacher dies.
    pub fn abandon(&self) {
        self.cacher.shared.abandon(None);
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
        let mut store = self.store.borrow_mut();
        let events = self.engine.events_after(store.revision());
        let updates = events
            .iter()
            .filter(|event| prefix().covers(&event.key))
            .map(update);
        let newest = events.last().map_or(Revision::ZERO, |event| event.revision);
        let changes = store.apply(updates.collect(), newest);
        self.cacher.shared.publish(changes, store.snapshot());
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
    let content = match event.kind {
        EventKind::Put => match OneLiners.decode(&event.key, event.revision, &event.value) {
            Ok(object) => Content::Object(Arc::new(object)),
            Err(error) => Content::Unreadable(Arc::new(error)),
        },
        EventKind::Delete => Content::Gone,
    };
    Update {
        revision: event.revision,
        key: event.key.clone(),
        content,
    }
}

/// What a watcher has to say now.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    pub lines: Vec<String>,
    pub has_ended: bool,
}

/// Polls a watcher until it waits or ends.
pub fn hear(watcher: &mut Watcher) -> Heard {
    let context = Context::from_waker(Waker::noop());
    hear_as(watcher, &Caller::task(&context))
}

/// As [`hear`], polled by this caller, who believes a frame that says there is nothing more.
pub fn hear_as(watcher: &mut Watcher, caller: &Caller<'_>) -> Heard {
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
    Heard { lines, has_ended }
}

/// So often others run before a watcher that was not woken is taken to have nothing more to fetch:
/// its read of history may wait for reads of other watchers.
pub const TURNS_OF_OTHERS: usize = 100;

/// Notes that it was called.
#[derive(Default)]
pub struct Called(AtomicBool);

impl Called {
    /// Whether it was called since this was asked last.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Called {
    fn wake(self: Arc<Called>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls a watcher, letting its reads of history go on, until nothing more comes.
pub async fn hear_all(watcher: &mut Watcher) -> Heard {
    let called = Arc::new(Called::default());
    let waker = Waker::from(Arc::clone(&called));
    let caller = Caller::task(&Context::from_waker(&waker));
    let mut all = hear_as(watcher, &caller);
    while !all.has_ended {
        let mut turns = 0;
        while !called.take() {
            if turns == TURNS_OF_OTHERS {
                return all;
            }
            turns += 1;
            tokio::task::yield_now().await;
        }
        let more = hear_as(watcher, &caller);
        all.lines.extend(more.lines);
        all.has_ended = more.has_ended;
    }
    all
}
