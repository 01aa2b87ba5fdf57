//! One Dispatcher per HTTP thread: its watchers, their topics and groups.
//!
//! A watcher is a cursor. One that is up to date has no position of its own, it stands at the
//! position of its desk (a resource on this thread); a hint makes the desk read the ring from
//! there to the end, judge each event once per group of equal watchers, and mark the members that
//! have something to fetch now. They fetch it when they are polled, and are up to date again.
//!
//! ```text
//!  Cacher ──ring──▶ Desk ──topics──▶ Group ──log──▶ Watcher::poll_next ──▶ stream
//!     └──bell, one hint──┘                             │      ▲
//!                                             lagging: ring, then history
//! ```
//!
//! When the actor dies its streams end and their clients resume; the next watch on the thread
//! starts it anew. The Supervisor has no part in this, as nothing of a thread may be touched from
//! another one.

mod bookmarks;
mod caller;
mod desk;
mod group;
mod hall;
mod handlers;
mod history;
mod initial;
mod link;
mod look;
mod member;
mod messages;
mod metrics;
mod replay;
mod schedule;
mod serve;
mod shelf;
mod slab;
mod start;
#[cfg(test)]
mod tests;
mod topics;
mod watcher;

use std::rc::Rc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use tokio::time::Instant;

pub use caller::{Caller, ReadyList, WatchFrame};
pub use history::HistoryPool;
pub(crate) use metrics::describe as describe_metrics;
pub use start::{StartPoint, WatchStart};
pub use watcher::Watcher;

use crate::mailbox;
use hall::Hall;

/// What a Dispatcher needs to know.
#[derive(Clone)]
pub struct DispatcherConfig {
    /// Shared by the Dispatchers of all threads.
    pub history: HistoryPool,
    /// Bytes of values in one read of the history.
    pub history_chunk_bytes: usize,
}

impl Default for DispatcherConfig {
    /// Four reads at a time, as history comes from disk and clients' own reads go first, for 256
    /// watches, each of which then gets its next piece in less than a second; 64 KiB of values,
    /// about what one write to a client takes.
    fn default() -> DispatcherConfig {
        DispatcherConfig {
            history: HistoryPool::new(4, 256),
            history_chunk_bytes: 64 << 10,
        }
    }
}

/// How often logs of groups are trimmed by age: an entry is kept for one to two of these while
/// somebody has not fetched it.
const AGE_EVERY: Duration = Duration::from_secs(2);

/// The actor behind [`LocalDispatcher`]: it is told of hints and of time.
pub(crate) struct Dispatcher {
    hall: Rc<Hall>,
}

impl Dispatcher {
    fn begin(hall: &Rc<Hall>) {
        let dispatcher = Dispatcher {
            hall: Rc::clone(hall),
        };
        hall.link.fill(dispatcher.start());
    }
}

impl Actor for Dispatcher {
    type Context = Context<Dispatcher>;

    fn started(&mut self, context: &mut Context<Dispatcher>) {
        context.set_mailbox_capacity(mailbox::DISPATCHER);
        context.run_interval(schedule::SLOT, |dispatcher, _| {
            dispatcher.hall.tick(Instant::now());
        });
        context.run_interval(AGE_EVERY, |dispatcher, _| dispatcher.hall.age_logs());
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // Its streams end; the next watch starts the next life. Not here: this may be the end of
        // the thread itself.
        self.hall.link.clear();
        self.hall.close_all();
    }
}

/// The Dispatcher of the calling thread.
#[derive(Clone)]
pub struct LocalDispatcher {
    hall: Rc<Hall>,
}

impl LocalDispatcher {
    /// Starts the Dispatcher of the calling thread, which must be an actix arbiter; `id` is the
    /// thread's number, for logs.
    pub fn start(config: DispatcherConfig, id: usize) -> LocalDispatcher {
        tracing::debug!(thread = id, "dispatcher started");
        let hall = Rc::new(Hall::new(config));
        Dispatcher::begin(&hall);
        LocalDispatcher { hall }
    }

    /// Registers a watch and chooses where it starts, in one turn: no event after the start point
    /// is missed and none comes twice. Poll it once after registering.
    ///
    /// Errors that a client must be told (a version too old, a cache that fills) are the caller's
    /// to find before; a watch that can't be served ends silently (WA-37).
    pub fn watch(&self, start: WatchStart) -> Watcher {
        if !self.hall.link.is_filled() {
            Dispatcher::begin(&self.hall);
        }
        self.hall.watch(start)
    }

    /// Whether a watch that starts behind the ring had better come again later.
    pub fn is_history_crowded(&self) -> bool {
        self.hall.config.history.is_full()
    }

    /// Ends all watches politely, with a last bookmark where one is wanted; later ones end at
    /// once.
    pub fn drain(&self) {
        self.hall.drain();
    }

    /// Comes back when watches are to end politely, for those that nobody here serves.
    pub fn drained(&self) -> impl Future<Output = ()> + use<> {
        self.hall.drained()
    }

    /// How many watches there are on this thread.
    pub fn watchers(&self) -> usize {
        self.hall.watchers()
    }

    /// How many resources are watched on this thread, or were.
    #[cfg(test)]
    pub(crate) fn desks(&self) -> usize {
        self.hall.desks()
    }
}
