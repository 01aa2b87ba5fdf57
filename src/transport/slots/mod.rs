//! Limits how many clients may be connected, and how many of them may be unauthenticated.
//!
//! A connection is unauthenticated until a request with valid credentials arrives on it.
//! Unauthenticated connections are limited in total and per peer address. When no slot is free, a
//! connection of the address with the most unauthenticated connections is closed. Connections that
//! have sent no byte are closed before others, and older ones before newer ones. A new connection
//! therefore always finds a slot, however many idle connections another client opens.
//!
//! A TLS handshake costs CPU time, so connections that have started one have a limit of their own.
//! Other connections wait until one of these is authenticated or closed, or has taken so long that
//! it has to make room.
//!
//! Authenticated connections are limited only by the number of slots, of which a few stay free for
//! probes and new connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::addresses::network;
use crate::transport::limits::Limits;

/// The divisor for the share of slots that authenticated connections may not take, up to
/// [`RESERVED_MAX`].
const RESERVED_SHARE: usize = 16;
const RESERVED_MAX: usize = 64;

/// The number of unauthenticated connections that are allowed even if there are few slots.
const UNAUTHENTICATED_MIN: usize = 4;

/// How many connections may wait for each connection that may start TLS.
const WAITING_FOR_EACH: usize = 16;

/// How long a TLS handshake may take before it can be closed for a connection that waits.
const GRACE: Duration = Duration::from_secs(2);

/// The maximum number of connections of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    connections: usize,
    authenticated: usize,
    /// One peer may have three quarters of them.
    unauthenticated: usize,
    /// Unauthenticated connections that have started TLS. One peer may have three quarters of them.
    begun: usize,
}

impl Bounds {
    fn of(limits: &Limits) -> Bounds {
        let connections = limits.connections.max(1);
        let reserved = (connections / RESERVED_SHARE).min(RESERVED_MAX);
        let most = (connections / 2).max(UNAUTHENTICATED_MIN).min(connections);
        let begun = limits.unauthenticated_connections.clamp(1, most);
        Bounds {
            connections,
            authenticated: connections - reserved,
            unauthenticated: (WAITING_FOR_EACH * begun).min(most),
            begun,
        }
    }
}

/// Returns the part of `count` that one peer may have.
fn share(count: usize) -> usize {
    (count / 4 * 3).max(UNAUTHENTICATED_MIN).min(count)
}

/// An unauthenticated connection.
#[derive(Debug)]
struct Unauthenticated {
    peer: IpAddr,
    /// Whether a byte has arrived.
    heard: bool,
    /// When it started TLS.
    begun: Option<Instant>,
    /// Dropping it closes the connection.
    _close: oneshot::Sender<()>,
}

/// The outcome of admitting a connection.
#[derive(Debug)]
enum Admitted {
    /// The connection has a slot with this number. The receiver reports when it loses the slot.
    In(u64, oneshot::Receiver<()>),
    /// Authenticated connections hold all slots.
    Full,
}

/// The number of unauthenticated connections of one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: usize,
    begun: usize,
}

/// Counts the slots and decides which connection gets or loses one. Connection numbers rise, so the
/// lowest is the oldest.
#[derive(Debug)]
struct SlotAccounting {
    bounds: Bounds,
    next: u64,
    authenticated: usize,
    unauthenticated: BTreeMap<u64, Unauthenticated>,
    begun: usize,
    by_peer: HashMap<IpAddr, Count>,
    /// The number of unauthenticated connections closed to make room for others.
    closed: u64,
}

impl SlotAccounting {
    fn new(bounds: Bounds) -> SlotAccounting {
        SlotAccounting {
            bounds,
            next: 0,
            authenticated: 0,
            unauthenticated: BTreeMap::new(),
            begun: 0,
            by_peer: HashMap::new(),
            closed: 0,
        }
    }

    fn connections(&self) -> usize {
        self.authenticated + self.unauthenticated.len()
    }

    /// Admits a connection, in place of another if necessary.
    fn admit(&mut self, peer: IpAddr) -> Admitted {
        let peer = network(peer);
        if self.count(peer).all >= share(self.bounds.unauthenticated) {
            self.close_one(|of| of == peer);
        } else if self.unauthenticated.len() >= self.bounds.unauthenticated
            || self.connections() >= self.bounds.connections
        {
            let most = self.by_peer.values().map(|count| count.all).max();
            let most = most.unwrap_or_default();
            let crowded: HashSet<IpAddr> = self.peers(|count| count.all == most);
            self.close_one(|of| crowded.contains(&of));
        }
        if self.connections() >= self.bounds.connections {
            return Admitted::Full;
        }
        let (close, closed) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        let connection = Unauthenticated {
            peer,
            heard: false,
            begun: None,
            _close: close,
        };
        self.unauthenticated.insert(number, connection);
        self.by_peer.entry(peer).or_default().all += 1;
        Admitted::In(number, closed)
    }

    fn count(&self, peer: IpAddr) -> Count {
        self.by_peer.get(&peer).copied().unwrap_or_default()
    }

    fn peers(&self, which: impl Fn(&Count) -> bool) -> HashSet<IpAddr> {
        let found = self.by_peer.iter().filter(|(_, count)| which(count));
        found.map(|(peer, _)| *peer).collect()
    }

    /// Closes the connection of these peers that is first in line to be closed.
    fn close_one(&mut self, of: impl Fn(IpAddr) -> bool) {
        let these = self.unauthenticated.iter();
        let these = these.filter(|(_, connection)| of(connection.peer));
        let least = these.min_by_key(|(number, connection)| {
            (connection.heard, connection.begun.is_some(), **number)
        });
        if let Some(number) = least.map(|(number, _)| *number) {
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        self.forget(number);
        self.closed += 1;
    }

    fn forget(&mut self, number: u64) -> bool {
        let Some(connection) = self.unauthenticated.remove(&number) else {
            return false;
        };
        let begun = usize::from(connection.begun.is_some());
        self.begun -= begun;
        if let Some(count) = self.by_peer.get_mut(&connection.peer) {
            count.all -= 1;
            count.begun -= begun;
            if count.all == 0 {
                self.by_peer.remove(&connection.peer);
            }
        }
        true
    }

    /// Records the first byte, after which TLS starts. Returns false while the connection has to
    /// wait.
    fn begin(&mut self, number: u64, now: Instant) -> bool {
        let Some(connection) = self.unauthenticated.get_mut(&number) else {
            // The connection is closed already and will notice.
            return false;
        };
        connection.heard = true;
        let peer = connection.peer;
        if self.count(peer).begun >= share(self.bounds.begun) {
            self.close_overdue(now, Some(peer));
        } else if self.begun >= self.bounds.begun {
            self.close_overdue(now, None);
        }
        let is_room =
            self.begun < self.bounds.begun && self.count(peer).begun < share(self.bounds.begun);
        if is_room && let Some(connection) = self.unauthenticated.get_mut(&number) {
            connection.begun = Some(now);
            self.begun += 1;
            self.by_peer.entry(peer).or_default().begun += 1;
        }
        is_room
    }

    /// Closes the connection with the longest-running handshake, of this peer or of all, if its
    /// grace period is over.
    fn close_overdue(&mut self, now: Instant, peer: Option<IpAddr>) {
        let these = self.unauthenticated.iter();
        let these = these.filter(|(_, connection)| peer.is_none_or(|peer| connection.peer == peer));
        let begun = these.filter_map(|(number, connection)| Some((connection.begun?, *number)));
        if let Some((since, number)) = begun.min()
            && now.duration_since(since) >= GRACE
        {
            self.close(number);
        }
    }

    /// Records valid credentials. Returns false if there are too many authenticated connections.
    fn authenticate(&mut self, number: u64) -> bool {
        let is_room = self.authenticated < self.bounds.authenticated;
        let authenticated = is_room && self.forget(number);
        self.authenticated += usize::from(authenticated);
        authenticated
    }

    fn leave(&mut self, number: u64, authenticated: bool) {
        if authenticated {
            self.authenticated -= 1;
        } else {
            self.forget(number);
        }
    }
}

/// The slots of a listener.
pub(in crate::transport) struct Slots {
    admission: Mutex<SlotAccounting>,
    open: Gauge,
    unauthenticated: Gauge,
    closed: Counter,
}

impl Slots {
    /// Creates the slots, all of them free.
    pub(in crate::transport) fn new(limits: &Limits) -> Arc<Slots> {
        metrics::describe_gauge!(
            "taffrail_connections",
            "Connections open on the secure port."
        );
        metrics::describe_gauge!(
            "taffrail_connections_unauthenticated",
            "Connections open on the secure port without a request with valid credentials so far."
        );
        metrics::describe_counter!(
            "taffrail_connections_unauthenticated_closed_total",
            "Unauthenticated connections closed to make room for others."
        );
        Arc::new(Slots {
            admission: Mutex::new(SlotAccounting::new(Bounds::of(limits))),
            open: metrics::gauge!("taffrail_connections"),
            unauthenticated: metrics::gauge!("taffrail_connections_unauthenticated"),
            closed: metrics::counter!("taffrail_connections_unauthenticated_closed_total"),
        })
    }

    /// Takes a slot for a new connection. Returns `None` when authenticated connections hold all
    /// slots.
    pub(in crate::transport) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        match self.change(|admission| admission.admit(peer)) {
            Admitted::In(number, closed) => Some(Slot {
                slots: Arc::clone(self),
                number,
                authenticated: Cell::new(false),
                closed: RefCell::new(Some(closed)),
            }),
            Admitted::Full => None,
        }
    }

    fn publish(&self, admission: &SlotAccounting) {
        self.open.set(admission.connections() as f64);
        self.unauthenticated
            .set(admission.unauthenticated.len() as f64);
        self.closed.absolute(admission.closed);
    }

    fn change<T>(&self, change: impl FnOnce(&mut SlotAccounting) -> T) -> T {
        let mut admission = self.admission.lock();
        let changed = change(&mut admission);
        self.publish(&admission);
        changed
    }
}

/// The slot of a connection. Dropping it frees the slot.
pub(in crate::transport) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    authenticated: Cell<bool>,
    closed: RefCell<Option<oneshot::Receiver<()>>>,
}

impl Slot {
    /// Whether a request with valid credentials has arrived on the connection.
    pub(in crate::transport) fn is_authenticated(&self) -> bool {
        self.authenticated.get()
    }

    /// Records the first byte, after which TLS starts. Returns false while the connection has to
    /// wait.
    pub(in crate::transport) fn begin(&self) -> bool {
        self.slots
            .change(|admission| admission.begin(self.number, Instant::now()))
    }

    /// Records valid credentials. Returns false if there are too many authenticated connections.
    pub(in crate::transport) fn authenticate(&self) -> bool {
        if !self.authenticated.get() {
            let authenticated = self
                .slots
                .change(|admission| admission.authenticate(self.number));
            self.authenticated.set(authenticated);
            if authenticated {
                self.closed.borrow_mut().take();
            }
        }
        self.authenticated.get()
    }

    /// Ready when the connection has to close to make room for another.
    pub(in crate::transport) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut closed = self.closed.borrow_mut();
        match closed.as_mut() {
            Some(receiver) => Pin::new(receiver).poll(context).map(|_| ()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let authenticated = self.authenticated.get();
        self.slots
            .change(|admission| admission.leave(self.number, authenticated));
    }
}

#[cfg(test)]
mod tests;
