//! All desks of one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::DispatcherConfig;
use super::desk::Desk;
use super::link::{DeskBell, Link};
use super::shelf::Shelf;
use super::slab::Slab;
use super::start::WatchStart;
use super::watcher::Watcher;

/// See the module's documentation. It outlives the Dispatcher's lives; with one of them the
/// streams end, and their desks.
pub(super) struct Hall {
    pub(super) config: DispatcherConfig,
    pub(super) link: Arc<Link>,
    pub(super) shelf: Rc<Shelf>,
    desks: RefCell<Desks>,
    draining: watch::Sender<bool>,
}

/// A desk is here as long as its resource is, and longer with its watchers, which end then.
#[derive(Default)]
struct Desks {
    by_number: Slab<Rc<RefCell<Desk>>>,
    /// By the address of their cache's shared part, which the desk keeps alive.
    by_cacher: HashMap<usize, u32>,
}

impl Desks {
    fn forget_closed(&mut self, number: u32) {
        let desk = self.by_number.get(number);
        if desk.is_some_and(|desk| desk.borrow().is_closed()) {
            self.by_number.remove(number);
            self.by_cacher.retain(|_, filed| *filed != number);
        }
    }
}

impl Hall {
    pub(super) fn new(config: DispatcherConfig) -> Hall {
        Hall {
            config,
            link: Arc::default(),
            shelf: Rc::default(),
            desks: RefCell::default(),
            draining: watch::Sender::new(false),
        }
    }

    /// Registers a watch.
    pub(super) fn watch(self: &Rc<Hall>, start: WatchStart) -> Watcher {
        if *self.draining.borrow() {
            return Watcher::ended();
        }
        let Some(desk) = self.desk_for(&start) else {
            return Watcher::ended();
        };
        // A cache that is not ready, or in another life than the snapshot's, has no stream to
        // join (WC-40).
        desk.borrow_mut().look();
        if !start.cacher.readiness().is_ready() {
            return Watcher::ended();
        }
        Watcher::open(Rc::clone(self), desk, start)
    }

    /// The desk of the watch's resource; `None` once the resource was removed.
    pub(super) fn desk_for(&self, start: &WatchStart) -> Option<Rc<RefCell<Desk>>> {
        let cacher = Arc::as_ptr(&start.cacher.shared) as usize;
        let mut desks = self.desks.borrow_mut();
        let number = desks.by_cacher.get(&cacher).copied();
        if let Some(desk) = number.and_then(|number| desks.by_number.get(number)) {
            return Some(Rc::clone(desk));
        }
        let number = desks.by_number.next_number();
        let bell = DeskBell {
            link: Arc::clone(&self.link),
            desk: number,
        };
        let desk = Desk::open(start, Arc::new(bell))?;
        let desk = Rc::new(RefCell::new(desk));
        desks.by_number.insert(Rc::clone(&desk));
        desks.by_cacher.insert(cacher, number);
        Some(desk)
    }

    /// Reads the rings of the desks whose bells were rung. A resource that was removed has rung
    /// its last: its desk goes.
    pub(super) fn look_after_due(&self) {
        for number in self.link.take_due() {
            let desk = self.desks.borrow().by_number.get(number).cloned();
            if let Some(desk) = desk {
                desk.borrow_mut().look();
                self.desks.borrow_mut().forget_closed(number);
            }
        }
    }

    /// Bookmarks and deadlines; and whatever was due if a hint got lost.
    pub(super) fn tick(&self, now: Instant) {
        self.look_after_due();
        self.for_each(|desk| desk.tick(now));
    }

    pub(super) fn age_logs(&self) {
        self.for_each(Desk::age_logs);
    }

    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
        self.for_each(Desk::drain);
    }

    /// Comes back once the thread drains.
    pub(super) fn drained(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.draining.subscribe();
        async move {
            // A hall that is gone has no streams any more.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    /// The Dispatcher is dead: all streams end, and the next watches begin at new desks.
    pub(super) fn close_all(&self) {
        let desks = std::mem::take(&mut *self.desks.borrow_mut());
        for desk in desks.by_number.iter() {
            desk.borrow_mut().close();
        }
    }

    /// How many resources are watched here, or were.
    #[cfg(test)]
    pub(super) fn desks(&self) -> usize {
        self.desks.borrow().by_number.len()
    }

    pub(super) fn watchers(&self) -> usize {
        let desks = self.desks.borrow();
        let watchers = desks
            .by_number
            .iter()
            .map(|desk| desk.borrow().members.len());
        watchers.sum()
    }

    #[cfg(test)]
    pub(super) fn scheduled(&self) -> usize {
        let desks = self.desks.borrow();
        let scheduled = desks
            .by_number
            .iter()
            .map(|desk| desk.borrow().schedule.len());
        scheduled.sum()
    }

    fn for_each(&self, mut act: impl FnMut(&mut Desk)) {
        let desks: Vec<_> = self.desks.borrow().by_number.iter().cloned().collect();
        for desk in desks {
            act(&mut desk.borrow_mut());
        }
    }
}
