//! Tests which connection gets a slot, and which one makes room.

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
    assert!(is_closed(&mut second.1), "the oldest silent one is closed");
    for connection in [&mut first, &mut third, &mut fourth] {
        assert!(!is_closed(&mut connection.1));
    }
    for connection in [&third, &fourth, &fifth] {
        begin(&mut admission, connection);
    }
    let _sixth = enter(&mut admission, 1);
    assert!(
        is_closed(&mut first.1),
        "none is silent: the oldest is closed"
    );
    assert_eq!((admission.unauthenticated.len(), admission.closed), (4, 2));
}

#[test]
fn one_peer_takes_no_place_of_others() {
    let mut admission = admission(20, 1000);
    let mut other = enter(&mut admission, 2);
    let held: Vec<_> = (0..50).map(|_| enter(&mut admission, 1)).collect();
    assert_eq!(admission.unauthenticated.len(), 7);
    let further: Vec<_> = (3..9).map(|last| enter(&mut admission, last)).collect();
    assert!(
        !is_closed(&mut other.1),
        "the peer with most of them makes room"
    );
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
    assert_eq!(gone.count(), 1, "one slot was needed, and freed");
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
    assert!(
        admission.begin(other.0, then),
        "other peers have limits of their own"
    );
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
    assert!(!is_user, "the reserve is for new connections");
    // The client gets 429 and leaves. Other clients connect to probe the health of the daemon.
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
        // The closed connection later leaves, too.
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
