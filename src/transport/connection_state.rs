//! The server's view of one connection: whether it is authenticated, and how many bytes the daemon
//! holds for it.
//!
//! The daemon holds the headers of unanswered requests, and responses that the client has not
//! taken. While the responses of a connection are at its limit, no further response is computed for
//! it. When requests and responses together reach twice the limit, its requests are refused. The
//! limit is far lower for unauthenticated connections. The lower limit also applies to all
//! connections while they hold too much together. When they hold twice that much, requests are
//! refused. Watches do not count: a watch holds at most one frame for a client that does not read.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use metrics::Gauge;

use super::fairness::ConnectionShare;
use super::limits::Limits;
use super::service::Owner;
use super::slots::Slot;

/// How often a connection that waits for TLS checks whether it may start.
const BEGIN_AGAIN: Duration = Duration::from_millis(50);

/// The bytes that the daemon holds for all authenticated connections.
pub(in crate::transport) struct TotalHeldBytes {
    bytes: AtomicUsize,
    gauge: Gauge,
}

impl Default for TotalHeldBytes {
    fn default() -> TotalHeldBytes {
        metrics::describe_gauge!(
            "taffrail_connections_held_bytes",
            "Bytes of waiting requests and unread responses, summed over all \
             authenticated connections."
        );
        TotalHeldBytes {
            bytes: AtomicUsize::new(0),
            gauge: metrics::gauge!("taffrail_connections_held_bytes"),
        }
    }
}

impl TotalHeldBytes {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.gauge.increment(bytes as f64);
    }

    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.gauge.decrement(bytes as f64);
    }

    fn get(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The state of one connection.
pub(in crate::transport) struct ConnectionState {
    /// `None` on a listener that does not limit connections.
    slot: Option<Slot>,
    limits: Arc<Limits>,
    in_all: Arc<TotalHeldBytes>,
    share: ConnectionShare,
    /// Whether the client has vanished.
    has_vanished: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    requests: Cell<usize>,
    answers: Cell<usize>,
}

impl ConnectionState {
    /// Creates the state of a connection, which holds no bytes yet. `slot` is `None` on a listener
    /// without slots.
    pub(in crate::transport) fn new(
        slot: Option<Slot>,
        limits: Arc<Limits>,
        in_all: Arc<TotalHeldBytes>,
        share: ConnectionShare,
    ) -> Rc<ConnectionState> {
        Rc::new(ConnectionState {
            slot,
            limits,
            in_all,
            share,
            has_vanished: Cell::new(false),
            waker: RefCell::default(),
            requests: Cell::new(0),
            answers: Cell::new(0),
        })
    }

    /// Whether a request with valid credentials has arrived on the connection.
    pub(in crate::transport) fn is_authenticated(&self) -> bool {
        self.slot.as_ref().is_some_and(Slot::is_authenticated)
    }

    /// Records the owner of the connection once it has shown valid credentials. Returns false if
    /// there are too many authenticated connections, so that this one must close.
    pub(in crate::transport) fn authenticate(&self, owner: &Owner) -> bool {
        if self.is_authenticated() {
            return true;
        }
        self.share.set_user(&owner.0);
        let authenticated = self.slot.as_ref().is_none_or(Slot::authenticate);
        if authenticated {
            self.in_all.add(self.held());
        }
        authenticated
    }

    /// Counts the bytes of a request that waits.
    pub(in crate::transport) fn hold_request(self: &Rc<Self>, bytes: usize) -> Held {
        self.hold(Part::Request, bytes)
    }

    /// Counts the bytes of a response that cannot be sent at once.
    pub(in crate::transport) fn hold_answer(self: &Rc<Self>, bytes: usize) -> Held {
        self.hold(Part::Answer, bytes)
    }

    fn hold(self: &Rc<Self>, part: Part, bytes: usize) -> Held {
        let mut held = Held {
            state: Rc::clone(self),
            part,
            bytes: 0,
        };
        held.set(bytes);
        held
    }

    fn held(&self) -> usize {
        self.requests.get() + self.answers.get()
    }

    /// Records the first byte and waits until TLS may start.
    pub(in crate::transport) async fn begin(&self) {
        while self.slot.as_ref().is_some_and(|slot| !slot.begin()) {
            tokio::time::sleep(BEGIN_AGAIN).await;
        }
    }

    /// Whether the connection should do little at a time, because other connections wait.
    pub(in crate::transport) fn has_turn(&self) -> bool {
        self.share.has_turn()
    }

    /// Closes the connection, because its client has vanished.
    pub(in crate::transport) fn end_vanished(&self) {
        self.has_vanished.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Runs the work of the connection in the turns of its user. Returns `None` if the connection
    /// had to close to make room for another, or because its client has vanished.
    pub(in crate::transport) async fn keep<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|context| {
            match &mut *self.waker.borrow_mut() {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            let slot = self.slot.as_ref();
            let is_closed = slot.is_some_and(|slot| slot.poll_closed(context).is_ready());
            if is_closed || self.has_vanished.get() {
                return Poll::Ready(None);
            }
            let polled = self
                .share
                .poll(context, |context| work.as_mut().poll(context));
            polled.map(Some)
        })
        .await
    }

    fn allowed(&self) -> usize {
        if !self.is_authenticated() || self.in_all.get() >= self.limits.held_bytes_in_all {
            self.limits.unauthenticated_held_bytes
        } else {
            self.limits.held_bytes
        }
    }

    /// Whether another response may be computed.
    pub(in crate::transport) fn may_answer(&self) -> bool {
        self.answers.get() < self.allowed()
    }

    /// Whether a request of `bytes` may be accepted, in addition to the open `streams`.
    pub(in crate::transport) fn may_ask(&self, bytes: usize, streams: usize) -> bool {
        let few = match self.is_authenticated() {
            true => self.in_all.get() < 2 * self.limits.held_bytes_in_all,
            false => streams < self.limits.unauthenticated_streams,
        };
        few && self.held() + bytes <= 2 * self.allowed()
    }
}

#[derive(Clone, Copy)]
enum Part {
    Request,
    Answer,
}

/// Bytes that count as held for a connection until this is dropped.
pub(in crate::transport) struct Held {
    state: Rc<ConnectionState>,
    part: Part,
    bytes: usize,
}

impl Held {
    /// Sets the number of bytes held.
    pub(in crate::transport) fn set(&mut self, bytes: usize) {
        let state = &self.state;
        let held = match self.part {
            Part::Request => &state.requests,
            Part::Answer => &state.answers,
        };
        held.set(held.get() - self.bytes + bytes);
        if state.is_authenticated() && bytes != self.bytes {
            state.in_all.add(bytes);
            state.in_all.subtract(self.bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::transport::fairness::FairThread;
    use crate::transport::slots::Slots;

    fn limits() -> Arc<Limits> {
        Arc::new(Limits {
            unauthenticated_streams: 2,
            held_bytes: 1000,
            unauthenticated_held_bytes: 100,
            held_bytes_in_all: 1500,
            ..Limits::default()
        })
    }

    fn owner() -> Owner {
        Owner("ann".into())
    }

    fn state(in_all: &Arc<TotalHeldBytes>) -> Rc<ConnectionState> {
        let limits = limits();
        let slot = Slots::new(&limits).admit(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let share = FairThread::default().connection();
        ConnectionState::new(slot, limits, Arc::clone(in_all), share)
    }

    #[test]
    fn an_unauthenticated_connection_may_hold_far_less() {
        let in_all = Arc::new(TotalHeldBytes::default());
        let state = state(&in_all);
        assert!(state.may_answer() && state.may_ask(200, 1));
        assert!(!state.may_ask(1, 2), "streams are few");
        let waiting = state.hold_request(150);
        assert!(state.may_answer(), "waiting requests must be answered");
        assert!(state.may_ask(50, 0) && !state.may_ask(51, 0));
        drop(waiting);
        let held = state.hold_answer(100);
        assert!(!state.may_answer());
        assert!(state.may_ask(100, 0) && !state.may_ask(101, 0));
        assert_eq!(in_all.get(), 0);

        assert!(state.authenticate(&owner()));
        assert_eq!(in_all.get(), 100);
        assert!(state.may_answer() && state.may_ask(1900, 50));
        drop(held);
        assert_eq!((state.held(), in_all.get()), (0, 0));
    }

    #[test]
    fn where_all_hold_too_much_each_may_hold_little() {
        let in_all = Arc::new(TotalHeldBytes::default());
        let (one, other) = (state(&in_all), state(&in_all));
        assert!(one.authenticate(&owner()) && other.authenticate(&owner()));
        let mut much = one.hold_answer(900);
        let little = other.hold_answer(600);
        assert!(!one.may_answer() && !other.may_answer());
        assert!(
            state(&in_all).may_answer(),
            "a connection that holds nothing continues"
        );
        let too_much = state(&in_all).hold_answer(1);
        let further = state(&in_all);
        assert!(further.authenticate(&owner()) && further.may_ask(0, 0));
        let most = further.hold_answer(1500);
        assert!(
            !other.may_ask(0, 0),
            "at twice the limit no request is accepted"
        );
        drop((most, too_much));
        much.set(10);
        assert!(one.may_answer() && other.may_answer());
        drop((much, little));
        assert_eq!(in_all.get(), 0);
    }
}
