//! What the server thinks of a connection: whether good credentials have come by it, and how many
//! bytes it makes the daemon hold.
//!
//! A connection holds the heads of requests that are not answered yet, and answers that its client
//! has not taken. While it holds as many bytes of answers as it may, no further one is found for
//! it; with twice as many of both, its requests are refused. An unauthenticated connection may hold
//! far less, and so may every other one while all of them together hold too much; with twice too
//! much, requests are refused. Watches don't count: they hold a
//! frame at most for a client that does not read.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use metrics::Gauge;

use super::limits::Limits;
use super::listener::slots::Slot;

/// A connection that has to wait with TLS looks so often whether it may begin.
const BEGIN_AGAIN: Duration = Duration::from_millis(50);

/// What all authenticated connections make the daemon hold.
pub(in crate::server) struct TotalHeldBytes {
    bytes: AtomicUsize,
    gauge: Gauge,
}

impl Default for TotalHeldBytes {
    fn default() -> TotalHeldBytes {
        metrics::describe_gauge!(
            "taffrail_connections_held_bytes",
            "Bytes of requests that wait and answers that clients have not taken, over all \
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
pub(in crate::server) struct ConnectionState {
    /// None on a listener where everybody is alike.
    slot: Option<Slot>,
    limits: Arc<Limits>,
    in_all: Arc<TotalHeldBytes>,
    requests: Cell<usize>,
    answers: Cell<usize>,
}

impl ConnectionState {
    /// Of a connection that has a slot, or of one on a listener without slots. It holds nothing
    /// yet.
    pub(in crate::server) fn new(
        slot: Option<Slot>,
        limits: Arc<Limits>,
        in_all: Arc<TotalHeldBytes>,
    ) -> Rc<ConnectionState> {
        Rc::new(ConnectionState {
            slot,
            limits,
            in_all,
            requests: Cell::new(0),
            answers: Cell::new(0),
        })
    }

    /// Whether good credentials have come by the connection.
    pub(in crate::server) fn is_authenticated(&self) -> bool {
        self.slot.as_ref().is_some_and(Slot::is_authenticated)
    }

    /// Good credentials have come by the connection; false when there are authenticated
    /// connections enough, and this one must go.
    pub(in crate::server) fn authenticate(&self) -> bool {
        if self.is_authenticated() {
            return true;
        }
        let authenticated = self.slot.as_ref().is_none_or(Slot::authenticate);
        if authenticated {
            self.in_all.add(self.held());
        }
        authenticated
    }

    /// Takes note of a request that waits.
    pub(in crate::server) fn hold_request(self: &Rc<Self>, bytes: usize) -> Held {
        self.hold(Part::Request, bytes)
    }

    /// Takes note of an answer that can't be sent at once.
    pub(in crate::server) fn hold_answer(self: &Rc<Self>, bytes: usize) -> Held {
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

    /// A first byte has come by the connection, and TLS is to begin: waits until it may.
    pub(in crate::server) async fn begin(&self) {
        while self.slot.as_ref().is_some_and(|slot| !slot.begin()) {
            tokio::time::sleep(BEGIN_AGAIN).await;
        }
    }

    /// Carries out the work of the connection; `None` when it had to go for another meanwhile.
    pub(in crate::server) async fn keep<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|context| match &self.slot {
            Some(slot) if slot.poll_closed(context).is_ready() => Poll::Ready(None),
            _ => work.as_mut().poll(context).map(Some),
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

    /// Whether another answer may be found.
    pub(in crate::server) fn may_answer(&self) -> bool {
        self.answers.get() < self.allowed()
    }

    /// Whether a request of so many bytes may come in, beside `streams` that are open.
    pub(in crate::server) fn may_ask(&self, bytes: usize, streams: usize) -> bool {
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

/// Bytes held for a connection until this is dropped.
pub(in crate::server) struct Held {
    state: Rc<ConnectionState>,
    part: Part,
    bytes: usize,
}

impl Held {
    /// There are so many now.
    pub(in crate::server) fn set(&mut self, bytes: usize) {
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
    use crate::server::listener::slots::Slots;

    fn limits() -> Arc<Limits> {
        Arc::new(Limits {
            unauthenticated_streams: 2,
            held_bytes: 1000,
            unauthenticated_held_bytes: 100,
            held_bytes_in_all: 1500,
            ..Limits::default()
        })
    }

    fn state(in_all: &Arc<TotalHeldBytes>) -> Rc<ConnectionState> {
        let limits = limits();
        let slot = Slots::new(&limits).admit(IpAddr::V4(Ipv4Addr::LOCALHOST));
        ConnectionState::new(slot, limits, Arc::clone(in_all))
    }

    #[test]
    fn an_unauthenticated_connection_may_hold_far_less() {
        let in_all = Arc::new(TotalHeldBytes::default());
        let state = state(&in_all);
        assert!(state.may_answer() && state.may_ask(200, 1));
        assert!(!state.may_ask(1, 2), "streams are few");
        let waiting = state.hold_request(150);
        assert!(state.may_answer(), "what waits must be answered");
        assert!(state.may_ask(50, 0) && !state.may_ask(51, 0));
        drop(waiting);
        let held = state.hold_answer(100);
        assert!(!state.may_answer());
        assert!(state.may_ask(100, 0) && !state.may_ask(101, 0));
        assert_eq!(in_all.get(), 0);

        assert!(state.authenticate());
        assert_eq!(in_all.get(), 100);
        assert!(state.may_answer() && state.may_ask(1900, 50));
        drop(held);
        assert_eq!((state.held(), in_all.get()), (0, 0));
    }

    #[test]
    fn where_all_hold_too_much_each_may_hold_little() {
        let in_all = Arc::new(TotalHeldBytes::default());
        let (one, other) = (state(&in_all), state(&in_all));
        assert!(one.authenticate() && other.authenticate());
        let mut much = one.hold_answer(900);
        let little = other.hold_answer(600);
        assert!(!one.may_answer() && !other.may_answer());
        assert!(state(&in_all).may_answer(), "who holds nothing goes on");
        let too_much = state(&in_all).hold_answer(1);
        let further = state(&in_all);
        assert!(further.authenticate() && further.may_ask(0, 0));
        let most = further.hold_answer(1500);
        assert!(
            !other.may_ask(0, 0),
            "with twice as much nothing is taken in"
        );
        drop((most, too_much));
        much.set(10);
        assert!(one.may_answer() && other.may_answer());
        drop((much, little));
        assert_eq!(in_all.get(), 0);
    }
}
