//! The state that the connections of one HTTP thread share.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use metrics::Counter;
use tokio::sync::Notify;

use super::http_date::HttpDate;
use super::slots::Slot;
use super::vanished::Ends;
use crate::transport::buffer_pool::BufferPool;
use crate::transport::connection_state::{ConnectionState, TotalHeldBytes};
use crate::transport::fairness::FairThread;
use crate::transport::limits::Limits;

/// The load of one thread as the acceptor sees it: connections and their watches.
#[derive(Debug, Default)]
pub(in crate::transport) struct Load {
    connections: AtomicUsize,
    watches: AtomicUsize,
}

impl Load {
    /// Returns the sum of both. A watch is about as much work as a connection.
    pub(super) fn get(&self) -> usize {
        self.connections() + self.watches.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn connect(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

const WATCH_FRAMES: &str = "taffrail_watch_frames_sent_total";

/// Returns the counter of the frames of watches, for those that a session sends.
pub fn watch_frames() -> Counter {
    metrics::counter!(WATCH_FRAMES)
}

/// Counters that are looked up once per thread instead of once per delivery.
pub(in crate::transport) struct Counters {
    watch_frames: Counter,
    refused_requests: Counter,
    floods: Counter,
    vanished: Counter,
}

impl Counters {
    fn new() -> Counters {
        metrics::describe_counter!(
            WATCH_FRAMES,
            "Watch events, bookmarks included, handed to HTTP/2 streams, HTTP/1.1 connections and \
             WebSockets."
        );
        metrics::describe_counter!(
            "taffrail_http2_requests_refused_total",
            "Requests refused unread because their connection had too many waiting requests or \
             unread responses."
        );
        metrics::describe_counter!(
            "taffrail_http2_floods_total",
            "HTTP/2 connections closed because of a flood of frames without data."
        );
        metrics::describe_counter!(
            "taffrail_connections_vanished_total",
            "Connections closed because their clients' kernels had acknowledged nothing for a \
             minute."
        );
        Counters {
            vanished: metrics::counter!("taffrail_connections_vanished_total"),
            refused_requests: metrics::counter!("taffrail_http2_requests_refused_total"),
            floods: metrics::counter!("taffrail_http2_floods_total"),
            watch_frames: watch_frames(),
        }
    }

    /// Counts a request that was refused because its connection had no room.
    pub(in crate::transport) fn refused_request(&self) {
        self.refused_requests.increment(1);
    }

    /// Counts a connection that was closed because of a flood.
    pub(in crate::transport) fn flooded(&self) {
        self.floods.increment(1);
    }

    /// Counts the watch frames of a batch.
    pub(in crate::transport) fn sent(&self, watch_frames: u64) {
        if watch_frames > 0 {
            self.watch_frames.increment(watch_frames);
        }
    }
}

/// An HTTP thread. Clones share it and stay on the thread.
#[derive(Clone)]
pub(in crate::transport) struct HttpThread {
    shared: Rc<ThreadContext>,
}

struct ThreadContext {
    limits: Arc<Limits>,
    load: Arc<Load>,
    held: Arc<TotalHeldBytes>,
    fairness: FairThread,
    buffers: BufferPool,
    date: HttpDate,
    counters: Counters,
    draining: Cell<bool>,
    /// The number of revocations so far.
    revocations: Cell<u32>,
    members: RefCell<Members>,
    empty: Notify,
    /// The connections of clients, by their two ends.
    by_ends: RefCell<HashMap<Ends, Weak<ConnectionState>>>,
}

/// The connections to notify of a drain.
#[derive(Default)]
struct Members {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Members {
    fn len(&self) -> usize {
        self.wakers.len() - self.free.len()
    }
}

impl HttpThread {
    pub(in crate::transport) fn new(
        limits: Arc<Limits>,
        load: Arc<Load>,
        held: Arc<TotalHeldBytes>,
    ) -> HttpThread {
        HttpThread {
            shared: Rc::new(ThreadContext {
                limits,
                load,
                held,
                fairness: FairThread::default(),
                buffers: BufferPool::default(),
                date: HttpDate::default(),
                counters: Counters::new(),
                draining: Cell::new(false),
                revocations: Cell::new(0),
                members: RefCell::default(),
                empty: Notify::new(),
                by_ends: RefCell::default(),
            }),
        }
    }

    pub(in crate::transport) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Creates the state of a new connection.
    pub(in crate::transport) fn state(&self, slot: Option<Slot>) -> Rc<ConnectionState> {
        let shared = &self.shared;
        let (limits, held) = (Arc::clone(&shared.limits), Arc::clone(&shared.held));
        ConnectionState::new(slot, limits, held, shared.fairness.connection())
    }

    /// Divides the time of the thread among users while the returned future is polled.
    pub(in crate::transport) fn grant_turns(&self) -> impl Future<Output = ()> + use<> {
        self.shared.fairness.clone().grant_turns()
    }

    /// Creates the state of a new connection between these ends, which
    /// [`HttpThread::end_vanished`] may end.
    pub(super) fn state_of(&self, slot: Slot, ends: Option<Ends>) -> KnownState {
        let state = self.state(Some(slot));
        if let Some(ends) = ends {
            let mut by_ends = self.shared.by_ends.borrow_mut();
            by_ends.insert(ends, Rc::downgrade(&state));
        }
        KnownState {
            thread: self.clone(),
            ends,
            state,
        }
    }

    /// Ends the connections of clients that have vanished.
    pub(super) fn end_vanished(&self, vanished: &HashSet<Ends>) {
        let by_ends = self.shared.by_ends.borrow();
        let ended = vanished.iter().filter_map(|ends| by_ends.get(ends));
        for state in ended.filter_map(Weak::upgrade) {
            state.end_vanished();
            self.shared.counters.vanished.increment(1);
        }
    }

    pub(in crate::transport) fn buffers(&self) -> &BufferPool {
        &self.shared.buffers
    }

    pub(in crate::transport) fn date(&self) -> &HttpDate {
        &self.shared.date
    }

    pub(in crate::transport) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Registers a new connection.
    pub(in crate::transport) fn join(&self) -> Membership {
        let mut members = self.shared.members.borrow_mut();
        let index = members.free.pop().unwrap_or_else(|| {
            members.wakers.push(None);
            members.wakers.len() - 1
        });
        Membership {
            thread: self.clone(),
            index,
            revocations: self.shared.revocations.get(),
            watches: 0,
        }
    }

    /// Asks every connection to finish its work and close.
    pub(super) fn drain(&self) {
        self.shared.draining.set(true);
        let mut members = self.shared.members.borrow_mut();
        for waker in members.wakers.iter_mut().filter_map(Option::take) {
            waker.wake();
        }
    }

    /// Asks every connection to end the watches whose access is revoked.
    pub(super) fn look_for_revoked(&self) {
        let revocations = &self.shared.revocations;
        revocations.set(revocations.get().wrapping_add(1));
        let members = self.shared.members.borrow();
        members.wakers.iter().flatten().for_each(Waker::wake_by_ref);
    }

    /// The number of connections.
    pub(super) fn connections(&self) -> usize {
        self.shared.members.borrow().len()
    }

    /// Waits until the last connection has closed.
    pub(super) async fn emptied(&self) {
        while self.connections() > 0 {
            self.shared.empty.notified().await;
        }
    }
}

/// The state of a connection that is registered by its ends until this is dropped.
pub(super) struct KnownState {
    thread: HttpThread,
    ends: Option<Ends>,
    pub(super) state: Rc<ConnectionState>,
}

impl Drop for KnownState {
    fn drop(&mut self) {
        let Some(ends) = self.ends else { return };
        let mut by_ends = self.thread.shared.by_ends.borrow_mut();
        // A new connection may have the same ends already.
        let is_own = |known: &Weak<ConnectionState>| known.as_ptr() == Rc::as_ptr(&self.state);
        if by_ends.get(&ends).is_some_and(is_own) {
            by_ends.remove(&ends);
        }
    }
}

/// The registration of a connection with its thread. Dropping it ends the registration.
pub(in crate::transport) struct Membership {
    thread: HttpThread,
    index: usize,
    revocations: u32,
    watches: usize,
}

impl Membership {
    /// The thread.
    pub(in crate::transport) fn thread(&self) -> &HttpThread {
        &self.thread
    }

    /// Whether the thread drains. The task is woken when a drain begins.
    pub(in crate::transport) fn is_draining(&self, context: &Context<'_>) -> bool {
        let shared = &self.thread.shared;
        if !shared.draining.get()
            && let Some(slot) = shared.members.borrow_mut().wakers.get_mut(self.index)
        {
            match slot {
                Some(waker) => waker.clone_from(context.waker()),
                None => *slot = Some(context.waker().clone()),
            }
        }
        shared.draining.get()
    }

    /// Whether access to watches was revoked since the last call. The thread wakes the task for
    /// this, as for a drain.
    pub(in crate::transport) fn has_revocations(&mut self) -> bool {
        let revocations = self.thread.shared.revocations.get();
        std::mem::replace(&mut self.revocations, revocations) != revocations
    }

    /// Reports to the acceptor how many watches the connection carries.
    pub(in crate::transport) fn carries(&mut self, watches: usize) {
        if watches > self.watches {
            self.thread
                .shared
                .load
                .watches
                .fetch_add(watches - self.watches, Ordering::Relaxed);
        } else if watches < self.watches {
            self.thread
                .shared
                .load
                .watches
                .fetch_sub(self.watches - watches, Ordering::Relaxed);
        }
        self.watches = watches;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.carries(0);
        let shared = &self.thread.shared;
        let mut members = shared.members.borrow_mut();
        if let Some(slot) = members.wakers.get_mut(self.index) {
            *slot = None;
            members.free.push(self.index);
        }
        if members.len() == 0 {
            shared.empty.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::task::noop_waker;

    fn thread() -> (HttpThread, Arc<Load>) {
        let load = Arc::new(Load::default());
        let limits = Arc::new(Limits::default());
        (
            HttpThread::new(limits, Arc::clone(&load), Arc::default()),
            load,
        )
    }

    #[test]
    fn a_thread_is_empty_when_the_last_connection_has_gone() {
        let (thread, _) = thread();
        assert!(thread.emptied().now_or_never().is_some());
        let (one, other) = (thread.join(), thread.join());
        drop(one);
        assert!(thread.emptied().now_or_never().is_none());
        drop(other);
        assert!(thread.emptied().now_or_never().is_some());
    }

    #[test]
    fn a_drain_is_seen_by_those_who_come_later_too() {
        let (thread, _) = thread();
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let before = thread.join();
        assert!(!before.is_draining(&context));
        thread.drain();
        assert!(before.is_draining(&context));
        assert!(thread.join().is_draining(&context));
    }

    #[test]
    fn a_revocation_is_heard_of_once_by_those_who_are_there() {
        let (thread, _) = thread();
        let mut before = thread.join();
        thread.look_for_revoked();
        assert!(before.has_revocations() && !before.has_revocations());
        assert!(!thread.join().has_revocations());
    }

    #[test]
    fn the_load_counts_watches_and_forgets_those_of_a_closed_connection() {
        let (thread, load) = thread();
        let mut connection = thread.join();
        connection.carries(5);
        connection.carries(3);
        assert_eq!(load.get(), 3);
        drop(connection);
        assert_eq!(load.get(), 0);
    }
}
