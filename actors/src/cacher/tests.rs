//! The pure parts of a Cacher, and its watch cache.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::cache_content::AppliedUpdate;
use super::interests::Interests;
use super::*;
use crate::engine::{Key, Prefix, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::{ObjectChange, Ring, RingEvent};
use crate::snapshot::Snapshot;
use crate::testing::{FakeCacher, OneLiners, key, prefix, thing};
use crate::watch::Topic;

fn object(name: &str, revision: u64) -> Arc<CachedObject> {
    let value = bytes::Bytes::from(format!("red {revision}"));
    let object = OneLiners.decode(&key(name), Revision(revision), &value);
    Arc::new(object.unwrap())
}

fn put(name: &str, revision: u64) -> Update {
    Update {
        revision: Revision(revision),
        key: key(name),
        value: NewValue::Object(object(name, revision)),
    }
}

fn delete(name: &str, revision: u64) -> Update {
    Update {
        value: NewValue::Deleted,
        ..put(name, revision)
    }
}

/// Revisions of the change, the object before and the object after.
fn summary(changes: &[AppliedUpdate]) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let of = |object: &Option<Arc<CachedObject>>| object.as_ref().map(|object| object.revision.0);
    let changes = changes.iter().map(|applied| match applied {
        AppliedUpdate::Change(revision, change) => {
            (revision.0, of(&change.previous), of(&change.current))
        }
        AppliedUpdate::Gap(revision) => panic!("a break at {revision}"),
    });
    changes.collect()
}

#[test]
fn old_values_come_from_the_cache_and_unknown_keys_are_created_or_nothing_wa_21_wc_47() {
    let mut content = CacheContent::default();
    content.replace(Snapshot::of([object("ns/a", 3)], Revision(5)));
    let updates = vec![
        put("ns/a", 6),
        put("ns/b", 7),
        delete("ns/x", 8),
        delete("ns/a", 9),
    ];
    let changes = content.apply(updates, Revision(12));
    assert_eq!(
        summary(&changes),
        [
            (6, Some(3), Some(6)),
            (7, None, Some(7)),
            (9, Some(6), None)
        ]
    );
    let snapshot = content.snapshot();
    assert_eq!(snapshot.revision, Revision(12));
    assert_eq!(snapshot.last_event(), Revision(9));
    assert_eq!(snapshot.len(), 1);
    assert_eq!(snapshot.average_bytes(), "red 7".len() as u64);
}

#[test]
fn what_was_seen_already_is_passed_over() {
    let mut content = CacheContent::default();
    content.replace(Snapshot::of([object("ns/a", 3)], Revision(5)));
    let changes = content.apply(vec![put("ns/a", 4), put("ns/a", 6)], Revision(6));
    assert_eq!(summary(&changes), [(6, Some(3), Some(6))]);
    assert_eq!(
        summary(&content.apply(vec![put("ns/a", 6)], Revision(6))),
        []
    );
    content.apply(Vec::new(), Revision(2));
    assert_eq!(content.revision(), Revision(6), "never goes back");
}

#[test]
fn a_snapshot_is_read_by_prefix_in_order_of_keys_and_never_changes_li_37_pf_18() {
    let mut content = CacheContent::default();
    let names = ["ns/a", "ns/b", "ns/c", "ns-bad/a", "other/a"];
    let objects = {
        let mut objects = names.map(|name| object(name, 1));
        objects.sort_by(|one, other| one.key().cmp(other.key()));
        objects
    };
    content.replace(Snapshot::of(objects, Revision(1)));
    let snapshot = content.snapshot();
    content.apply(vec![delete("ns/b", 2), put("ns/d", 3)], Revision(3));
    let ns = Prefix::new("/registry/things/ns/");
    let list = |start: Option<&[u8]>| {
        let range = snapshot.range(&ns, start);
        range
            .flatten()
            .map(|object| object.attributes().name().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(None), ["a", "b", "c"]);
    assert_eq!(list(Some(b"/registry/things/ns/b")), ["b", "c"]);
    assert_eq!(list(Some(b"/registry/things/ns/b\0")), ["c"]);
    // A start before the prefix returns no keys outside of it.
    assert_eq!(list(Some(b"/registry/a")), ["a", "b", "c"]);
    assert_eq!(list(Some(b"/registry/zzz")), [""; 0]);
    assert_eq!(snapshot.stored_below(&ns), 3);
    assert_eq!(snapshot.stored_below(&prefix()), 5);
    assert!(snapshot.get(&key("ns/b")).is_some() && snapshot.get(&key("ns/d")).is_none());
}

#[derive(Default)]
struct CountedSignal(AtomicUsize);

impl EventSignal for CountedSignal {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The event of this number, counted from a ring's first.
fn event(name: &str, number: u64) -> Arc<RingEvent> {
    let mut ring = Ring::default();
    let mut sequence = 0;
    for _ in 0..number {
        let change = ObjectChange {
            current: Some(Arc::new(thing(name, "red"))),
            previous: None,
        };
        sequence = ring.push(Revision(1), change);
    }
    Arc::clone(ring.get(sequence).unwrap())
}

#[test]
fn a_desk_is_told_once_and_only_of_topics_it_wants() {
    let mut interests = Interests::default();
    let signal = Arc::new(CountedSignal::default());
    let sequence = |number| Some(event("any", number).sequence);
    let subscriber = interests.join(signal.clone());
    let idle = interests.join(Arc::new(CountedSignal::default()));
    let namespace = Topic::Namespace(Prefix::new("/registry/things/ns/"));
    interests.subscribe(subscriber, &namespace);
    interests.subscribe(subscriber, &namespace);
    interests.subscribe(subscriber, &Topic::Object(key("other/a")));
    interests.note(&event("other/b", 1));
    assert_eq!(interests.due_signals(false).len(), 0);
    interests.note(&event("other/a", 2));
    interests.note(&event("ns/a", 3));
    assert_eq!(interests.due_signals(false).len(), 1);
    assert_eq!(
        interests.due_signals(false).len(),
        0,
        "one hint until it looks"
    );
    assert_eq!(interests.take_pending(subscriber), sequence(2));
    assert_eq!(interests.take_pending(subscriber), None);
    assert_eq!(interests.take_pending(idle), None);
    // A topic is wanted as long as one of its groups exists.
    interests.unsubscribe(subscriber, &namespace);
    interests.note(&event("ns/a", 4));
    assert_eq!(interests.take_pending(subscriber), sequence(4));
    interests.unsubscribe(subscriber, &namespace);
    interests.note(&event("ns/a", 5));
    assert_eq!(interests.take_pending(subscriber), None);
    assert_eq!(interests.due_signals(true).len(), 2, "everybody");
    interests.leave(subscriber);
    interests.note(&event("other/a", 6));
    assert_eq!(interests.due_signals(false).len(), 0);
}

#[test]
fn a_batch_of_many_pieces_is_noted_from_its_first_event_and_rings_once() {
    let fake = FakeCacher::new(1 << 20);
    let signal = Arc::new(CountedSignal::default());
    let watch_cache = &fake.cacher.watch_cache;
    let subscriber = watch_cache.join(signal.clone()).unwrap();
    watch_cache.subscribe(subscriber, &Topic::All);
    for number in 0..1_000 {
        fake.engine.put(&key(&format!("ns/{number}")), "red");
    }
    fake.publish();
    assert_eq!(signal.0.load(Ordering::Relaxed), 1);
    let pending = watch_cache.take_pending(subscriber);
    let first = pending.from.unwrap();
    assert_eq!(pending.next, first + 1_000);
    assert_eq!(pending.newest, Revision(1_000));
    let mut events = Vec::new();
    assert_eq!(
        watch_cache.read(first, pending.next, 10, &mut events),
        RingRead::Copied
    );
    assert_eq!(events.len(), 10);
}

#[test]
fn a_ring_stays_within_its_bytes_whatever_comes() {
    let fake = FakeCacher::new(20_000);
    for number in 0..600 {
        fake.put("ns/a", &"x".repeat(number));
        let (_, bytes) = fake.cacher.watch_cache.ring_size();
        assert!(bytes <= 20_000, "{bytes} after {number}");
    }
    assert!(fake.cacher.ring_floor() > Revision(500));
    assert!(fake.cacher.ring_floor() < fake.engine.revision());
}

#[tokio::test]
async fn who_waits_for_freshness_is_woken_by_the_batch_and_told_when_the_cache_goes() {
    let fake = FakeCacher::new(1 << 20);
    let cacher = fake.cacher.clone();
    let wait = |at_least| {
        let cacher = cacher.clone();
        tokio::spawn(async move { cacher.fresh(0, at_least, Duration::from_secs(60)).await })
    };
    // In another epoch of the store no revision is new enough.
    let other = fake.cacher.fresh(1, Revision(0), Duration::ZERO).await;
    assert!(matches!(other, Err(NotFresh::Timeout { .. })), "{other:?}");
    let fresh = wait(Revision(1));
    tokio::task::yield_now().await;
    fake.put("ns/a", "red");
    assert_eq!(fresh.await.unwrap().unwrap().revision, Revision(1));
    let never = wait(Revision(9));
    tokio::task::yield_now().await;
    fake.abandon();
    let refused = never.await.unwrap();
    assert!(matches!(refused, Err(NotFresh::NotReady(_))), "{refused:?}");
}

#[tokio::test]
async fn earlier_states_are_the_newest_one_with_the_ring_s_events_undone_li_27() {
    let fake = FakeCacher::new(1 << 20);
    let mut states = Vec::new();
    let mut state = std::collections::BTreeMap::new();
    // Objects are created, changed and deleted, several in a batch.
    for number in 0..400_u64 {
        let name = format!("ns/{}", number * 7919 % 23);
        if number % 5 == 4 && state.remove(&name).is_some() {
            fake.engine.delete(&key(&name));
        } else {
            let value = format!("red {}", "x".repeat((number % 40) as usize));
            fake.engine.put(&key(&name), &value);
            state.insert(name, value);
        }
        states.push((fake.engine.revision(), state.clone()));
        if number % 3 == 0 {
            fake.publish();
        }
    }
    fake.publish();
    let newest = fake.cacher.snapshot().unwrap();
    for (revision, state) in states {
        let snapshot = fake.cacher.snapshot_at(revision).await;
        let snapshot = snapshot.expect("the ring holds everything");
        assert!(snapshot.last_event() <= revision && revision <= snapshot.revision);
        let everything = prefix();
        let objects = snapshot.range(&everything, None);
        let found: std::collections::BTreeMap<String, String> = objects
            .flatten()
            .map(|object| {
                let value = String::from_utf8_lossy(object.item_body()).into_owned();
                let name = format!(
                    "{}/{}",
                    object.attributes().namespace(),
                    object.attributes().name()
                );
                (name, value)
            })
            .collect();
        assert_eq!(found, state, "at {revision}");
        let sum: usize = found.values().map(String::len).sum();
        assert_eq!(snapshot.average_bytes(), (sum / found.len()) as u64);
        assert_eq!(snapshot.stored_below(&everything), found.len() as u64);
    }
    let future = fake.cacher.snapshot_at(newest.revision.next()).await;
    assert!(future.is_none(), "yet to come");
}

/// An object as an event or a snapshot shows it.
fn shown(object: &CachedObject) -> (Revision, String) {
    let text = String::from_utf8_lossy(object.item_body()).into_owned();
    (object.revision, text)
}

#[tokio::test]
async fn what_is_read_into_the_ring_is_what_it_would_have_seen_wa_20_li_27() {
    type State = std::collections::BTreeMap<String, (Revision, String)>;
    for seed in 1..=30_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let fake = FakeCacher::unfilled(1 << 20);
        let mut state = State::new();
        let mut states = vec![(Revision::ZERO, State::new())];
        let filled = 50 + below(100);
        for number in 0..250 {
            let name = format!("{}/{}", ["a", "b"][below(2) as usize], below(6));
            let revision = match below(3) {
                0 if state.remove(&name).is_some() => fake.engine.delete(&key(&name)),
                1 => fake.engine.put(
                    &crate::engine::Key::new(format!("/registry/others/{name}")),
                    "red",
                ),
                _ => {
                    let value = format!("red {number}");
                    let revision = fake.engine.put(&key(&name), &value);
                    state.insert(name, (revision, value));
                    revision
                }
            };
            states.push((revision, state.clone()));
            if number == filled {
                fake.fill();
            } else if number > filled && below(4) == 0 {
                fake.publish();
            }
            if number > filled && below(10) == 0 {
                let after = Revision(below(filled));
                let engine = fake.engine.clone();
                fake.cacher.backfill(&*engine, &OneLiners, after).await;
                assert!(fake.cacher.ring_floor() <= after);
            }
        }
        fake.publish();
        let watch_cache = &fake.cacher.watch_cache;
        let floor = fake.cacher.ring_floor();
        let (mut events, from) = (Vec::new(), watch_cache.locate(floor).unwrap());
        assert_eq!(
            watch_cache.read(from, u64::MAX, usize::MAX, &mut events),
            RingRead::Copied
        );
        let mut expected = Vec::new();
        for pair in states.windows(2) {
            let ((_, before), (revision, after)) = (&pair[0], &pair[1]);
            let names = before
                .keys()
                .chain(after.keys())
                .collect::<std::collections::BTreeSet<_>>();
            let changed = names
                .into_iter()
                .find(|name| before.get(*name) != after.get(*name));
            if let Some(name) = changed.filter(|_| *revision > floor) {
                expected.push((
                    *revision,
                    key(name),
                    before.get(name).cloned(),
                    after.get(name).cloned(),
                ));
            }
        }
        let found: Vec<_> = events
            .iter()
            .map(|event| {
                let previous = event.previous.as_deref().map(shown);
                let current = event.current.as_deref().map(shown);
                (event.revision, Key::new(event.key()), previous, current)
            })
            .collect();
        assert!(found == expected, "seed {seed}");
        let mut newest = std::collections::HashMap::new();
        for event in &events {
            if let Some(previous) = &event.previous
                && let Some(current) = newest.remove(event.key())
            {
                assert!(Arc::ptr_eq(previous, current), "one copy of {:?}", current);
            }
            if let Some(current) = &event.current {
                newest.insert(event.key(), current);
            }
        }
        for (revision, state) in states.iter().filter(|(revision, _)| *revision >= floor) {
            let snapshot = fake.cacher.snapshot_at(*revision).await.unwrap();
            let everything = prefix();
            let objects = snapshot.range(&everything, None).flatten().map(|object| {
                let name = format!(
                    "{}/{}",
                    object.attributes().namespace(),
                    object.attributes().name()
                );
                (name, shown(object))
            });
            assert_eq!(
                objects.collect::<State>(),
                *state,
                "seed {seed} at {revision}"
            );
        }
    }
}

/// Returns the news that a follower read, as texts.
fn told(news: CacheNews) -> Vec<String> {
    let name = |object: &Arc<CachedObject>| object.attributes().name().to_owned();
    match news {
        CacheNews::State(snapshot) => vec![format!("{} objects", snapshot.len())],
        CacheNews::Events(events) => {
            let events = events
                .iter()
                .map(|event| match (&event.current, &event.previous) {
                    (Some(object), _) => format!("+{}", name(object)),
                    (None, Some(object)) => format!("-{}", name(object)),
                    (None, None) => "?".to_owned(),
                });
            events.collect()
        }
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn a_follower_reads_the_state_and_then_each_event_once() {
    let fake = FakeCacher::unfilled(1 << 20);
    let mut follower = fake.cacher.follow();
    assert_eq!(told(follower.read()), ["Filling"]);
    assert_eq!(follower.reached(), None);
    fake.engine.put(&key("ns/a"), "red");
    fake.fill();
    assert_eq!(told(follower.read()), ["1 objects"]);
    assert_eq!(told(follower.read()), ["Nothing"]);
    fake.put("ns/b", "red");
    fake.delete("ns/a");
    let reached = fake.put("ns/c", "red");
    assert_eq!(told(follower.read()), ["+b", "-a", "+c"]);
    assert_eq!(told(follower.read()), ["Nothing"]);
    assert_eq!(follower.reached(), Some(reached));
    fake.abandon();
    assert_eq!(told(follower.read()), ["Filling"]);
    fake.fill();
    assert_eq!(told(follower.read()), ["2 objects"]);
}

#[test]
fn a_follower_that_is_behind_the_ring_gets_the_state_again() {
    let fake = FakeCacher::new(2 << 10);
    let mut follower = fake.cacher.follow();
    assert_eq!(told(follower.read()), ["0 objects"]);
    for round in 0..50 {
        fake.put("ns/a", &format!("red {round}"));
    }
    assert_eq!(told(follower.read()), ["1 objects"]);
    assert_eq!(told(follower.read()), ["Nothing"]);
}
