//! One Dispatcher for each HTTP thread serves all watches of that thread.
//!
//! It owns the thread's watchers, their groups, and a position in the ring of each watched
//! resource. It takes a [`WatchStart`] for each watch, hints and ring events from Cachers, and
//! history from the engine. [`Watcher::poll_next`] returns frames that are ready for the wire. It
//! must know nothing of HTTP or JSON, of other threads' watches, or of how a Cacher is filled.
//!
//! A watcher has no queue and no task. One that is up to date has no position of its own: it
//! shares the position of its [`ResourceDispatcher`](resource_dispatcher::ResourceDispatcher),
//! which is one resource on this thread. After a hint the ResourceDispatcher reads the ring to its
//! end, evaluates each event once for each group of equal watchers, and wakes the members that have
//! something to fetch. They fetch it when they are polled.
//!
//! ```text
//!  Cacher ──ring──▶ ResourceDispatcher ──topics──▶ Group ──log──▶ Watcher::poll_next ──▶ stream
//!     └──signal, one hint──┘                                         │      ▲
//!                                                       lagging: ring, then history
//! ```
//!
//! When the actor ends, its streams end and their clients resume. The next watch on the thread
//! starts it again. The Supervisor does not restart it, because no other thread may touch what
//! belongs to this one.

mod bookmarks;
mod caller;
mod config;
mod delivery;
mod group;
mod group_index;
mod handlers;
mod hint_sender;
mod history;
mod initial_events;
mod member;
mod messages;
mod metrics;
mod replay;
mod replay_buffer;
mod resource_dispatcher;
mod ring_reader;
mod schedule;
mod slab;
mod start;
#[cfg(test)]
mod tests;
mod thread_dispatcher;
mod watcher;

use std::rc::Rc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use tokio::time::Instant;

pub use caller::{Caller, ReadyList, WatchFrame};
pub use config::DispatcherConfig;
pub use history::HistoryPool;
pub(crate) use metrics::describe as describe_metrics;
pub use start::{StartPoint, WatchStart};
pub use watcher::Watcher;

use crate::mailbox;
use crate::watchdog::Pulse;
use thread_dispatcher::ThreadDispatcher;

/// How often the logs of groups are trimmed by age. An entry that a member has not fetched is kept
/// for one to two of these periods.
const AGE_EVERY: Duration = Duration::from_secs(2);

/// The actor of a [`LocalDispatcher`]. It receives hints and timer ticks.
pub(crate) struct Dispatcher {
    thread_dispatcher: Rc<ThreadDispatcher>,
    pulse: Pulse,
}

impl Dispatcher {
    fn begin(thread_dispatcher: &Rc<ThreadDispatcher>, pulse: &Pulse) {
        let dispatcher = Dispatcher {
            thread_dispatcher: Rc::clone(thread_dispatcher),
            pulse: pulse.clone(),
        };
        let address = dispatcher.start();
        thread_dispatcher.hint_sender.set(address.recipient());
    }
}

impl Actor for Dispatcher {
    type Context = Context<Dispatcher>;

    fn started(&mut self, context: &mut Context<Dispatcher>) {
        context.set_mailbox_capacity(mailbox::DISPATCHER);
        context.run_interval(schedule::TICK, |dispatcher, _| {
            let _turn = dispatcher.pulse.turn();
            dispatcher.thread_dispatcher.tick(Instant::now());
        });
        context.run_interval(AGE_EVERY, |dispatcher, _| {
            dispatcher.thread_dispatcher.age_logs();
        });
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // The streams end. The next watch starts the actor again: not this function, because the
        // thread itself may be ending.
        self.thread_dispatcher.hint_sender.clear();
        self.thread_dispatcher.close_all();
    }
}

/// The Dispatcher of the calling thread.
#[derive(Clone)]
pub struct LocalDispatcher {
    thread_dispatcher: Rc<ThreadDispatcher>,
    pulse: Pulse,
}

impl LocalDispatcher {
    /// Starts the Dispatcher of the calling thread, which must be an actix arbiter. `id` is the
    /// thread's number, for logs.
    pub fn start(config: DispatcherConfig, id: usize) -> LocalDispatcher {
        tracing::debug!(thread = id, "dispatcher started");
        let pulse = config.watchdog.pulse(format!("dispatcher/{id}"));
        let thread_dispatcher = Rc::new(ThreadDispatcher::new(config));
        Dispatcher::begin(&thread_dispatcher, &pulse);
        LocalDispatcher {
            thread_dispatcher,
            pulse,
        }
    }

    /// Registers a watch and chooses where it starts, in one step: no event after the start point
    /// is missed and none comes twice. Poll it once after registering.
    ///
    /// The caller must check first for the errors that a client sees (a version too old, a cache
    /// that is filling). A watch that can't be served ends without an error (WA-37).
    pub fn watch(&self, start: WatchStart) -> Watcher {
        if !self.thread_dispatcher.hint_sender.is_set() {
            Dispatcher::begin(&self.thread_dispatcher, &self.pulse);
        }
        self.thread_dispatcher.watch(start)
    }

    /// Ends all watches once they are up to date, with a last bookmark where one is wanted. Later
    /// watches end at once.
    pub fn drain(&self) {
        self.thread_dispatcher.drain();
    }

    /// Returns once [`LocalDispatcher::drain`] was called, for watches that no Dispatcher serves.
    pub fn drained(&self) -> impl Future<Output = ()> + use<> {
        self.thread_dispatcher.drained()
    }

    /// The number of watches on this thread.
    pub fn watchers(&self) -> usize {
        self.thread_dispatcher.watchers()
    }

    /// The number of resources that are or were watched on this thread.
    #[cfg(test)]
    pub(crate) fn resources(&self) -> usize {
        self.thread_dispatcher.resources()
    }
}
