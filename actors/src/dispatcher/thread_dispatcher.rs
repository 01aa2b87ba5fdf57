//! All watched resources of one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::config::DispatcherConfig;
use super::hint_sender::{HintSender, ResourceSignal};
use super::history::HistoryAccess;
use super::replay_buffer::ReplayBuffer;
use super::resource_dispatcher::ResourceDispatcher;
use super::slab::Slab;
use super::start::WatchStart;
use super::watcher::Watcher;

/// The watched resources of one thread. It outlives restarts of the Dispatcher. When a Dispatcher
/// ends, its streams and its resources end with it.
pub(super) struct ThreadDispatcher {
    pub(super) history: Rc<HistoryAccess>,
    pub(super) hint_sender: Arc<HintSender>,
    resources: RefCell<ResourceIndex>,
    draining: watch::Sender<bool>,
}

/// The watched resources, by number and by cache. A removed resource leaves the index at once, but
/// lives on until its last watcher has ended.
#[derive(Default)]
struct ResourceIndex {
    by_number: Slab<Rc<RefCell<ResourceDispatcher>>>,
    /// By the address of the watch cache, which the ResourceDispatcher keeps alive.
    by_cacher: HashMap<usize, u32>,
}

impl ResourceIndex {
    fn forget_closed(&mut self, number: u32) {
        let resource = self.by_number.get(number);
        if resource.is_some_and(|resource| resource.borrow().is_closed()) {
            self.by_number.remove(number);
            self.by_cacher.retain(|_, known| *known != number);
        }
    }
}

impl ThreadDispatcher {
    pub(super) fn new(config: DispatcherConfig) -> ThreadDispatcher {
        ThreadDispatcher {
            history: Rc::new(HistoryAccess {
                pool: config.history,
                chunk_bytes: config.history_chunk_bytes,
                buffer: ReplayBuffer::default(),
            }),
            hint_sender: Arc::default(),
            resources: RefCell::default(),
            draining: watch::Sender::new(false),
        }
    }

    /// Registers a watch.
    pub(super) fn watch(&self, start: WatchStart) -> Watcher {
        if *self.draining.borrow() {
            return Watcher::ended();
        }
        let Some(resource) = self.resource_for(&start) else {
            return Watcher::ended();
        };
        // A cache that is not ready, or was filled again after the snapshot was taken, has no
        // events that continue the snapshot (WC-40).
        resource.borrow_mut().read_ring();
        if !start.cacher.readiness().is_ready() {
            return Watcher::ended();
        }
        Watcher::open(Rc::clone(&self.history), resource, start)
    }

    /// The resource of a watch on this thread; `None` if the resource was removed.
    pub(super) fn resource_for(
        &self,
        start: &WatchStart,
    ) -> Option<Rc<RefCell<ResourceDispatcher>>> {
        let cacher = Arc::as_ptr(&start.cacher.watch_cache) as usize;
        let mut resources = self.resources.borrow_mut();
        let number = resources.by_cacher.get(&cacher).copied();
        if let Some(resource) = number.and_then(|number| resources.by_number.get(number)) {
            return Some(Rc::clone(resource));
        }
        let number = resources.by_number.next_number();
        let signal = ResourceSignal {
            hint_sender: Arc::clone(&self.hint_sender),
            resource: number,
        };
        let resource = ResourceDispatcher::open(start, Arc::new(signal))?;
        let resource = Rc::new(RefCell::new(resource));
        resources.by_number.insert(Rc::clone(&resource));
        resources.by_cacher.insert(cacher, number);
        Some(resource)
    }

    /// Reads the rings that were signalled, and drops the resources that were removed.
    pub(super) fn read_due_rings(&self) {
        for number in self.hint_sender.take_due() {
            let resource = self.resources.borrow().by_number.get(number).cloned();
            if let Some(resource) = resource {
                resource.borrow_mut().read_ring();
                self.resources.borrow_mut().forget_closed(number);
            }
        }
    }

    /// Handles bookmarks and deadlines. It also reads the rings that are due, in case a hint was
    /// lost.
    pub(super) fn tick(&self, now: Instant) {
        self.read_due_rings();
        self.for_each(|resource| resource.tick(now));
    }

    pub(super) fn age_logs(&self) {
        self.for_each(ResourceDispatcher::age_logs);
    }

    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
        self.for_each(ResourceDispatcher::drain);
    }

    /// Returns once the thread drains.
    pub(super) fn drained(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.draining.subscribe();
        async move {
            // An error means that the thread's Dispatcher is gone, and its streams with it.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    /// Ends all streams, because the Dispatcher has ended. Later watches open their resources
    /// again.
    pub(super) fn close_all(&self) {
        let resources = std::mem::take(&mut *self.resources.borrow_mut());
        for resource in resources.by_number.iter() {
            resource.borrow_mut().close();
        }
    }

    /// The number of resources that are or were watched here.
    #[cfg(test)]
    pub(super) fn resources(&self) -> usize {
        self.resources.borrow().by_number.len()
    }

    pub(super) fn watchers(&self) -> usize {
        let resources = self.resources.borrow();
        let watchers = resources
            .by_number
            .iter()
            .map(|resource| resource.borrow().members.len());
        watchers.sum()
    }

    #[cfg(test)]
    pub(super) fn scheduled(&self) -> usize {
        let resources = self.resources.borrow();
        let scheduled = resources
            .by_number
            .iter()
            .map(|resource| resource.borrow().schedule.len());
        scheduled.sum()
    }

    fn for_each(&self, mut act: impl FnMut(&mut ResourceDispatcher)) {
        let resources: Vec<_> = self.resources.borrow().by_number.iter().cloned().collect();
        for resource in resources {
            act(&mut resource.borrow_mut());
        }
    }
}
