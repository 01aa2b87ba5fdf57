//! Fairness among users on one HTTP thread, and on the threads for large requests ([`polls`]).
//!
//! The scheduler sees only polls, of a connection or of the work of a request, and either runs a
//! poll at once or queues it for a turn. It knows neither sockets nor HTTP nor what it polls.
//!
//! The scarce resource of a thread is time, whether lists, watches, decoding or TLS use it. So the
//! scheduler measures each poll and charges its time to the user of the connection. A user who has
//! recently used little is served at once. The connections of all others wait for turns, which
//! users get one after the other, and between two turns the thread serves everybody else. So a
//! client that lists everything again and again, or holds thousands of watches, delays others by
//! one turn.
//!
//! A user never waits while no other user wants time, and nobody is refused. A connection whose
//! user is not known yet is charged to nobody and never waits; other limits apply to such
//! connections.

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

pub use polls::FairPolls;
use turns::Turns;
use usage::Usage;

/// The scheduler of one thread. Clones share its state.
#[derive(Clone)]
pub(in crate::transport) struct FairThread {
    shared: Rc<Shared>,
}

struct Shared {
    began: Instant,
    /// The time that all users have used together.
    total: RefCell<Usage>,
    users: RefCell<HashMap<Arc<str>, Rc<User>>>,
    /// The number of users at which users without connections and recent use are removed.
    users_max: Cell<usize>,
    turns: RefCell<Turns<Arc<str>, Rc<Place>>>,
    is_waited_for: Notify,
    waits: Counter,
}

/// A user who has, or recently had, connections on the thread.
struct User {
    name: Arc<str>,
    usage: RefCell<Usage>,
}

/// The smallest number of users at which the scheduler looks for users to remove.
const USERS_MIN: usize = 64;

/// How long the thread grants turns before it lets other threads run.
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

/// A connection's share of the thread.
pub(in crate::transport) struct ConnectionShare {
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
    /// Returns the share of a new connection.
    pub(in crate::transport) fn connection(&self) -> ConnectionShare {
        ConnectionShare {
            thread: self.clone(),
            user: RefCell::default(),
            place: Rc::default(),
            has_turn: Cell::new(false),
        }
    }

    /// Grants one turn after the other. Between two turns the runtime runs all other tasks of the
    /// thread and polls its sockets. After a millisecond of turns the thread yields the processor,
    /// because the kernel would let other threads wait longer.
    pub(in crate::transport) async fn grant_turns(self) {
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

    /// Grants the next turn. Returns false if no connection waits.
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
            // A user with recent use stays, so that reconnecting does not reset the charge.
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
    pub(in crate::transport) fn set_user(&self, name: &str) {
        *self.user.borrow_mut() = Some(self.thread.user(name));
    }

    /// Runs the work of one poll and charges its time, or has it wait for a turn.
    pub(in crate::transport) fn poll<T>(
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

    /// Whether the connection runs in a granted turn while other users have little to do. It should
    /// then do little at a time.
    pub(in crate::transport) fn has_turn(&self) -> bool {
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
