//! Limits how many clients may be connected, and how many of them may be unauthenticated.
//!
//! A connection is unauthenticated until a request with good credentials arrives on it.
//! Unauthenticated connections are limited in total and per peer address. When no slot is free, one
//! of them is closed. It is one of the address that has the most. Connections that have sent no
//! byte are closed before others, and older ones before newer ones. A new connection therefore
//! always finds a slot, however many idle connections another client opens.
//!
//! A TLS handshake costs CPU time, so connections that have started one have a limit of their own.
//! Other connections wait until one of these is authenticated or closed, or has taken so long that
//! it has to make room.
//!
//! Only the number of slots limits authenticated connections. A few slots stay free for probes and
//! new connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::server::limits::Limits;

/// The share of slots, up to [`RESERVED_MAX`], that authenticated connections may not take: one in
/// this many.
const RESERVED_SHARE: usize = 16;
const RESERVED_MAX: usize = 64;

/// The number of unauthenticated connections that is allowed however few slots there are.
const UNAUTHENTICATED_MIN: usize = 4;

/// How many connections may wait for each one that may start TLS.
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

/// The part of `count` that one peer may have.
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

    /// Records good credentials. Returns false when there are too many authenticated connections.
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

/// The addresses that count as one peer. One IPv6 client usually owns 2^64 addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// The slots of a listener.
pub(in crate::server) struct Slots {
    admission: Mutex<SlotAccounting>,
    open: Gauge,
    unauthenticated: Gauge,
    closed: Counter,
}

impl Slots {
    /// Creates the slots, all of them free.
    pub(in crate::server) fn new(limits: &Limits) -> Arc<Slots> {
        metrics::describe_gauge!(
            "taffrail_connections",
            "Connections open on the secure port."
        );
        metrics::describe_gauge!(
            "taffrail_connections_unauthenticated",
            "Connections open on the secure port by which no request with good credentials came yet."
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
    pub(in crate::server) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
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
pub(in crate::server) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    authenticated: Cell<bool>,
    closed: RefCell<Option<oneshot::Receiver<()>>>,
}

impl Slot {
    /// Whether good credentials have arrived on the connection.
    pub(in crate::server) fn is_authenticated(&self) -> bool {
        self.authenticated.get()
    }

    /// Records the first byte, after which TLS starts. Returns false while the connection has to
    /// wait.
    pub(in crate::server) fn begin(&self) -> bool {
        self.slots
            .change(|admission| admission.begin(self.number, Instant::now()))
    }

    /// Records good credentials. Returns false when there are too many authenticated connections.
    pub(in crate::server) fn authenticate(&self) -> bool {
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
    pub(in crate::server) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
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
mod tests {
    use super::*;

    fn admission(connections: usize, unauthenticated: usize) -> SlotAccounting {
        let limits = Limits {
            connections,
            unauthenticated_connections: unauthenticated,
            ..Limits::default()
        };
        SlotAccounting::new(Bounds::of(&limits))
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Admits a connection that must find a slot.
    fn enter(admission: &mut SlotAccounting, last: u8) -> (u64, oneshot::Receiver<()>) {
        match admission.admit(peer(last)) {
            Admitted::In(number, closed) => (number, closed),
            Admitted::Full => panic!("there is no room"),
        }
    }

    fn is_closed(closed: &mut oneshot::Receiver<()>) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn begin(admission: &mut SlotAccounting, connection: &(u64, oneshot::Receiver<()>)) -> bool {
        admission.begin(connection.0, Instant::now())
    }

    #[test]
    fn a_peer_with_too_many_loses_its_silent_ones_and_its_oldest_first() {
        let mut admission = admission(10, 1000);
        let mut first = enter(&mut admission, 1);
        let mut second = enter(&mut admission, 1);
        let mut third = enter(&mut admission, 1);
        let mut fourth = enter(&mut admission, 1);
        assert!(begin(&mut admission, &first));
        let fifth = enter(&mut admission, 1);
        assert!(is_closed(&mut second.1), "the oldest silent one goes");
        for connection in [&mut first, &mut third, &mut fourth] {
            assert!(!is_closed(&mut connection.1));
        }
        for connection in [&third, &fourth, &fifth] {
            begin(&mut admission, connection);
        }
        let _sixth = enter(&mut admission, 1);
        assert!(is_closed(&mut first.1), "all were heard: the oldest goes");
        assert_eq!((admission.unauthenticated.len(), admission.closed), (4, 2));
    }

    #[test]
    fn one_peer_takes_no_place_of_others() {
        let mut admission = admission(20, 1000);
        let mut other = enter(&mut admission, 2);
        let held: Vec<_> = (0..50).map(|_| enter(&mut admission, 1)).collect();
        assert_eq!(admission.unauthenticated.len(), 7);
        let further: Vec<_> = (3..9).map(|last| enter(&mut admission, last)).collect();
        assert!(!is_closed(&mut other.1), "who has most of them gives way");
        assert_eq!(admission.unauthenticated.len(), 10);
        drop((held, further));
    }

    #[test]
    fn among_peers_with_equally_many_the_silent_go_first() {
        let mut admission = admission(20, 1000);
        let mut heard = enter(&mut admission, 1);
        assert!(begin(&mut admission, &heard));
        let mut silent: Vec<_> = (2..11).map(|last| enter(&mut admission, last)).collect();
        for last in 11..19 {
            let (number, _closed) = enter(&mut admission, last);
            assert!(!is_closed(&mut heard.1));
            admission.leave(number, false);
        }
        let gone = silent
            .iter_mut()
            .filter_map(|one| is_closed(&mut one.1).then_some(()));
        assert_eq!(gone.count(), 1, "one place was needed, and given back");
    }

    #[test]
    fn a_crowd_waits_for_tls_and_nobody_of_it_is_closed() {
        let mut admission = admission(10_000, 512);
        let mut crowd: Vec<_> = (0..2_000).map(|_| enter(&mut admission, 1)).collect();
        let now = Instant::now();
        let mut waiting: Vec<u64> = crowd.iter().map(|one| one.0).collect();
        let mut turns = 0;
        while !waiting.is_empty() {
            let (begun, others) = waiting
                .iter()
                .partition::<Vec<u64>, _>(|number| admission.begin(**number, now));
            assert_eq!(begun.len(), 384.min(waiting.len()));
            assert!(begun.iter().all(|number| admission.authenticate(*number)));
            waiting = others;
            turns += 1;
        }
        assert_eq!((turns, admission.closed), (6, 0));
        assert!(
            crowd.iter_mut().all(|one| is_closed(&mut one.1)),
            "nobody listens any more"
        );
    }

    #[test]
    fn who_is_at_it_for_too_long_makes_room_for_one_that_waits() {
        let mut admission = admission(10_000, 8);
        let mut slow: Vec<_> = (0..6).map(|_| enter(&mut admission, 1)).collect();
        let then = Instant::now();
        for connection in &slow {
            assert!(admission.begin(connection.0, then));
        }
        let waits = enter(&mut admission, 1);
        assert!(!admission.begin(waits.0, then + GRACE / 2));
        let other = enter(&mut admission, 2);
        assert!(admission.begin(other.0, then), "other peers have their own");
        assert!(admission.begin(waits.0, then + GRACE));
        assert!(is_closed(&mut slow[0].1) && !is_closed(&mut slow[1].1));
    }

    #[test]
    fn authenticated_connections_of_one_peer_have_all_slots_but_a_reserve() {
        let mut admission = admission(32, 1000);
        let mut enter_as_user = || {
            let (number, _closed) = enter(&mut admission, 1);
            (number, admission.authenticate(number))
        };
        assert!((0..30).all(|_| enter_as_user().1));
        let (last, is_user) = enter_as_user();
        assert!(!is_user, "the reserve is for newcomers");
        // The client is told and leaves. Others connect to probe the health of the daemon.
        admission.leave(last, false);
        let mut first = enter(&mut admission, 2);
        let _second = enter(&mut admission, 3);
        assert_eq!(admission.connections(), 32);
        let _third = enter(&mut admission, 3);
        assert!(is_closed(&mut first.1) || admission.closed == 1);
        assert_eq!(admission.connections(), 32);
    }

    #[test]
    fn without_a_reserve_all_slots_may_be_taken() {
        let mut admission = admission(2, 1000);
        for _ in 0..2 {
            let (number, _closed) = enter(&mut admission, 1);
            assert!(admission.authenticate(number));
        }
        assert!(matches!(admission.admit(peer(1)), Admitted::Full));
        admission.leave(0, true);
        assert!(matches!(admission.admit(peer(1)), Admitted::In(..)));
    }

    #[test]
    fn slots_are_given_back() {
        let mut admission = admission(4, 4);
        for _ in 0..100 {
            let (number, _open) = enter(&mut admission, 1);
            let authenticated = admission.authenticate(number);
            admission.leave(number, authenticated);
            let (number, _open) = enter(&mut admission, 2);
            admission.leave(number, false);
            // The closed connection also leaves by itself later.
            admission.leave(number, false);
        }
        assert_eq!(admission.connections(), 0);
        assert!(admission.by_peer.is_empty());
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn bounds_follow_the_number_of_slots() {
        let bounds = |connections| {
            let limits = Limits {
                connections,
                unauthenticated_connections: 512,
                ..Limits::default()
            };
            let bounds = Bounds::of(&limits);
            (bounds.authenticated, bounds.unauthenticated, bounds.begun)
        };
        assert_eq!(bounds(32_768), (32_704, 8_192, 512));
        assert_eq!(bounds(300), (282, 150, 150));
        assert_eq!(bounds(10), (10, 5, 5));
        assert_eq!(bounds(2), (2, 2, 2));
        assert_eq!(bounds(1), (1, 1, 1));
    }
}
