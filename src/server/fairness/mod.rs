//! Fairness among users on one HTTP thread, and on the threads for large requests ([`polls`]).
//!
//! This folder owns how the time of a thread is divided. A poll of a connection or of a request's
//! work enters, and is run at once or waits for a turn. It must not know sockets, HTTP, or what is
//! polled.
//!
//! What a thread runs out of is time, whatever it is spent on: lists, watches, decoding, TLS. So
//! the time of each poll is measured and charged to the user of the connection. Who has recently
//! taken a small part is served at once. The connections of others wait for turns, which users have
//! one after the other. Everybody else is served between two turns. So a client that lists
//! everything again and again, or holds thousands of watches, delays others by one turn.
//!
//! A user beside whom no other user wants time never waits, and nobody is refused. A connection
//! whose user is not known yet is charged to nobody and never waits. Other limits hold for those.

mod polls;
mod turns;
mod usage;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use metrics::Counter;
use tokio::sync::Notify;

pub(in crate::server) use polls::FairPolls;
use turns::Turns;
use usage::Usage;

/// The division of one thread's time. Clones share it.
#[derive(Clone)]
pub(in crate::server) struct FairThread {
    shared: Rc<Shared>,
}

struct Shared {
    began: Instant,
    /// What all users use.
    total: RefCell<Usage>,
    users: RefCell<HashMap<Arc<str>, Rc<User>>>,
    /// At so many users those who have left are forgotten.
    users_max: Cell<usize>,
    turns: RefCell<Turns<Arc<str>, Rc<Place>>>,
    is_waited_for: Notify,
    waits: Counter,
}

/// A user with connections on the thread, now or lately.
struct User {
    name: Arc<str>,
    usage: RefCell<Usage>,
}

/// So many users are remembered without a look at who has left.
const USERS_MIN: usize = 64;

/// How long turns are granted before other threads may have the processor.
const SLICE: Duration = Duration::from_millis(1);

/// Whether a connection waits for a turn.
#[derive(Default)]
struct Place {
    state: Cell<PlaceState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PlaceState {
    #[default]
    Free,
    Waiting,
    Granted,
}

/// The share of one connection.
pub(in crate::server) struct ConnectionShare {
    thread: FairThread,
    /// `None` until the user is known.
    user: RefCell<Option<Rc<User>>>,
    place: Rc<Place>,
    has_turn: Cell<bool>,
}

impl Default for FairThread {
    fn default() -> FairThread {
        metrics::describe_counter!(
            "taffrail_http_turns_waited_total",
            "Times that a connection waited for a turn, because its user had used much of its \
             thread's time while others wanted some."
        );
        FairThread {
            shared: Rc::new(Shared {
                began: Instant::now(),
                total: RefCell::default(),
                users: RefCell::default(),
                users_max: Cell::new(USERS_MIN),
                turns: RefCell::default(),
                is_waited_for: Notify::new(),
                waits: metrics::counter!("taffrail_http_turns_waited_total"),
            }),
        }
    }
}

impl FairThread {
    /// The share of a new connection.
    pub(in crate::server) fn connection(&self) -> ConnectionShare {
        ConnectionShare {
            thread: self.clone(),
            user: RefCell::default(),
            place: Rc::default(),
            has_turn: Cell::new(false),
        }
    }

    /// Grants one turn after the other. Between two, all other tasks of the thread run, and its
    /// sockets are looked at. After a millisecond of turns other threads that want the processor
    /// have it first: the system would let them wait longer.
    pub(in crate::server) async fn grant_turns(self) {
        let mut yielded = Instant::now();
        loop {
            while self.grant() {
                tokio::task::yield_now().await;
                if yielded.elapsed() >= SLICE {
                    std::thread::yield_now();
                    yielded = Instant::now();
                }
            }
            self.shared.is_waited_for.notified().await;
        }
    }

    /// Grants the next turn. Returns false when nobody waits.
    fn grant(&self) -> bool {
        let Some(place) = self.shared.turns.borrow_mut().next() else {
            return false;
        };
        place.state.set(PlaceState::Granted);
        if let Some(waker) = place.waker.borrow_mut().take() {
            waker.wake();
        }
        true
    }

    fn user(&self, name: &str) -> Rc<User> {
        let mut users = self.shared.users.borrow_mut();
        if let Some(user) = users.get(name) {
            return Rc::clone(user);
        }
        if users.len() >= self.shared.users_max.get() {
            // Who comes back at once has used what it had used.
            let now = self.nanoseconds(Instant::now());
            users.retain(|_, user| {
                Rc::strong_count(user) > 1 || user.usage.borrow().lately(now) > 0
            });
            self.shared.users_max.set((2 * users.len()).max(USERS_MIN));
        }
        let user = Rc::new(User {
            name: Arc::from(name),
            usage: RefCell::default(),
        });
        users.insert(Arc::clone(&user.name), Rc::clone(&user));
        user
    }

    /// The time since the thread began, in nanoseconds.
    fn nanoseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.shared.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl ConnectionShare {
    /// Charges the connection to a user from now on.
    pub(in crate::server) fn set_user(&self, name: &str) {
        *self.user.borrow_mut() = Some(self.thread.user(name));
    }

    /// Runs the work of one poll and charges its time, or has it wait for a turn.
    pub(in crate::server) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let began = Instant::now();
        if self.must_wait(began, context) {
            return Poll::Pending;
        }
        let polled = work(context);
        let ended = Instant::now();
        let took = ended.saturating_duration_since(began).as_nanos();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        let now = self.thread.nanoseconds(ended);
        if let Some(user) = &*self.user.borrow() {
            self.thread.shared.total.borrow_mut().add(now, took);
            user.usage.borrow_mut().add(now, took);
        }
        polled
    }

    /// Whether the connection runs in a turn, beside others who have little to do. Then it should
    /// do little at a time.
    pub(in crate::server) fn has_turn(&self) -> bool {
        self.has_turn.get()
    }

    fn must_wait(&self, now: Instant, context: &Context<'_>) -> bool {
        let user = self.user.borrow();
        let Some(user) = &*user else { return false };
        let place = &self.place;
        self.has_turn.set(place.state.get() == PlaceState::Granted);
        match place.state.get() {
            PlaceState::Granted => {
                place.state.set(PlaceState::Free);
                return false;
            }
            PlaceState::Free => {
                let shared = &self.thread.shared;
                let now = self.thread.nanoseconds(now);
                let total = shared.total.borrow().lately(now);
                if !usage::is_much(user.usage.borrow().lately(now), total) {
                    return false;
                }
                let mut turns = shared.turns.borrow_mut();
                turns.wait(&user.name, Rc::clone(place));
                shared.is_waited_for.notify_one();
                shared.waits.increment(1);
                place.state.set(PlaceState::Waiting);
            }
            PlaceState::Waiting => {}
        }
        match &mut *place.waker.borrow_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        true
    }
}

#[cfg(test)]
mod tests;
