//! The ring alone.

use super::*;
use crate::object::Decode;
use crate::testing::{Lines, OneLiners, key};
use crate::watch::WatchEventKind;

fn object(name: &str, revision: u64, bytes: usize) -> Arc<crate::object::CachedObject> {
    let value = bytes::Bytes::from(vec![b'x'; bytes]);
    let object = OneLiners.decode(&key(name), Revision(revision), &value);
    Arc::new(object.unwrap())
}

/// An update of one object, whose versions have 1,000 bytes.
fn update(revision: u64) -> ObjectChange {
    ObjectChange {
        current: Some(object("ns/a", revision, 1_000)),
        previous: (revision > 1).then(|| object("ns/a", revision - 1, 1_000)),
    }
}

fn ring(revisions: impl IntoIterator<Item = u64>) -> Ring {
    let mut ring = Ring::default();
    for revision in revisions {
        ring.push(Revision(revision), update(revision));
    }
    ring
}

fn revisions(ring: &Ring, from: u64) -> Vec<u64> {
    ring.from(from).map(|event| event.revision.0).collect()
}

#[test]
fn events_are_addressed_by_sequence_and_found_by_revision() {
    let ring = ring([3, 5, 9]);
    let first = ring.first();
    assert_eq!(ring.next(), first + 3);
    assert_eq!(revisions(&ring, first + 1), [5, 9]);
    let last = ring.get(first + 2);
    assert_eq!(last.map(|event| event.revision), Some(Revision(9)));
    assert!(ring.get(first - 1).is_none() && ring.get(first + 3).is_none());
    let after = [0, 3, 4, 9, 100].map(|revision| ring.after(Revision(revision)));
    assert_eq!(after, [0, 1, 1, 3, 3].map(|passed| Some(first + passed)));
}

#[test]
fn a_watch_from_the_last_revision_dropped_still_works_and_no_older_one_wa_30_wc_4() {
    let mut ring = ring(1..=5);
    let first = ring.first();
    let dropped = ring.evict();
    assert_eq!(dropped.len(), 1);
    assert_eq!(ring.floor(), Revision(1));
    assert_eq!(ring.after(Revision(0)), None);
    assert_eq!(ring.after(Revision(1)), Some(first + 1));
    assert_eq!(ring.first(), first + 1);
}

#[test]
fn what_happened_before_a_fill_can_be_put_before_its_events() {
    let mut ring = ring([]);
    ring.reset(Revision(40));
    ring.push(Revision(41), update(41));
    let first = ring.first();
    let changes = |revisions: &[u64]| {
        let change = |revision: &u64| (Revision(*revision), update(*revision));
        revisions.iter().map(change).collect::<Vec<_>>()
    };
    assert!(ring.prepend(Revision(30), changes(&[35, 40]), 1 << 20));
    assert_eq!((ring.floor(), ring.first()), (Revision(30), first - 2));
    assert_eq!(revisions(&ring, first - 2), [35, 40, 41]);
    assert_eq!(ring.after(Revision(29)), None);
    assert_eq!(ring.after(Revision(30)), Some(first - 2));
    assert_eq!(ring.after(Revision(40)), Some(first));
    // Further back still, where nothing happened.
    assert!(ring.prepend(Revision(20), Vec::new(), 1 << 20));
    assert_eq!(ring.after(Revision(20)), Some(first - 2));
    let bytes = ring.bytes();
    assert!(!ring.prepend(Revision(10), changes(&[15]), bytes));
    assert_eq!((ring.floor(), ring.bytes()), (Revision(20), bytes));
    assert!(
        !ring.prepend(Revision(20), Vec::new(), 1 << 20),
        "nothing new"
    );
    // A ring that has evicted events for lack of room takes none back.
    ring.evict();
    assert!(!ring.can_prepend() && !ring.prepend(Revision(10), Vec::new(), 1 << 20));
    ring.reset(Revision(50));
    assert!(ring.prepend(Revision(45), Vec::new(), 1 << 20));
}

#[test]
fn a_revision_leaves_as_a_whole() {
    let mut ring = ring([1, 1, 1, 2]);
    assert_eq!(ring.evict().len(), 3);
    assert_eq!(revisions(&ring, 0), [2]);
    assert!(!ring.evict().is_empty() && ring.evict().is_empty());
}

#[test]
fn after_a_fill_a_watch_from_its_revision_works_and_sequences_count_on_wc_5_ts_81() {
    let mut ring = ring(1..=5);
    let before = ring.next();
    assert_eq!(ring.reset(Revision(40)).len(), 5);
    let first = ring.first();
    assert!(first > before, "no number means something else now");
    assert_eq!(ring.after(Revision(39)), None);
    assert_eq!(ring.after(Revision(40)), Some(first));
    assert_eq!(ring.push(Revision(41), update(41)), first);
    assert_eq!(ring.newest(), Revision(41));
    ring.progress(Revision(50));
    assert_eq!(ring.newest(), Revision(50));
    assert_eq!(ring.after(Revision(45)), Some(first + 1));
    ring.close();
    assert_eq!(ring.after(Revision(50)), None);
    assert_eq!(ring.newest(), Revision(50));
}

#[test]
fn what_the_cache_holds_anyway_costs_the_ring_little() {
    let mut creates = Ring::default();
    for number in 1..=100u64 {
        let name = format!("ns/{number}");
        let change = ObjectChange {
            current: Some(object(&name, number, 1_000)),
            previous: None,
        };
        creates.push(Revision(number), change);
    }
    assert!(creates.bytes() < 100 * 300, "{}", creates.bytes());
    // Of updates the replaced version lives here alone.
    let updates = ring(1..=100);
    assert!(updates.bytes() > 99 * 1_000, "{}", updates.bytes());
    let mut emptied = updates;
    while !emptied.is_empty() {
        emptied.evict();
    }
    assert_eq!(emptied.bytes(), 0);
}

#[test]
fn frames_count_until_they_are_taken_back_and_are_then_made_anew() {
    let mut ring = ring(1..=4);
    let without = ring.bytes();
    let events: Vec<Arc<RingEvent>> = ring.from(0).cloned().collect();
    let frame_of = |event: &RingEvent| event.frame(WatchEventKind::Modified, &Lines).unwrap();
    let frames: Vec<bytes::Bytes> = events.iter().map(|event| frame_of(event)).collect();
    let frame_bytes: usize = frames.iter().map(bytes::Bytes::len).sum();
    assert_eq!(ring.bytes(), without + frame_bytes);
    // The oldest frames go first.
    ring.trim_frames(frame_bytes / 2);
    assert_eq!(ring.bytes(), without + frame_bytes / 2);
    assert_eq!(frame_of(&events[0]), frames[0]);
    assert_eq!(ring.bytes(), without + frame_bytes / 2, "not kept again");
    assert_eq!(frame_of(&events[3]).as_ptr(), frames[3].as_ptr(), "shared");
    // A frame made of an event that has left the ring is nobody's burden.
    while !ring.is_empty() {
        ring.evict();
    }
    frame_of(&events[3]);
    assert_eq!(ring.bytes(), 0);
}

#[test]
fn a_deletion_shows_what_was_before_and_an_event_without_an_object_shows_nothing_pf_1() {
    let mut ring = Ring::default();
    let change = ObjectChange {
        current: None,
        previous: Some(object("ns/a", 3, 2)),
    };
    let sequence = ring.push(Revision(9), change);
    let event = ring.get(sequence).unwrap();
    let deleted = event.frame(WatchEventKind::Deleted, &Lines).unwrap();
    assert_eq!(deleted, "DELETED ns/a@9 xx");
    assert_eq!(event.frame(WatchEventKind::Added, &Lines), None);
}
