//! Tests of snapshots and resets, on the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;

use crate::engine::{
    At, Change, DataEngine, EngineError, Event, EventKind, Expect, FeedItem, HistoryRequest, Key,
    LeaseEngine, LeaseId, MemoryEngine, Mutation, Origin, Outcome, Prefix, Prepared, RangeRequest,
    Revision,
};

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("the memory engine never waits")
}

fn key(name: &str) -> Key {
    Key::new(format!("/r/{name}").as_bytes())
}

/// Puts or deletes whatever is there.
fn write(engine: &MemoryEngine, name: &str, change: Change) -> Event {
    let current = now(engine.get(key(name), At::Latest)).unwrap().item;
    let mutation = Mutation {
        key: key(name),
        expect: current.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision)),
        change,
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    match now(engine.commit(mutation)).unwrap() {
        Outcome::Committed(event) => event,
        refused => panic!("{refused:?}"),
    }
}

fn put(engine: &MemoryEngine, name: &str, value: &str) -> Event {
    put_with(engine, name, value, LeaseId::default())
}

fn put_with(engine: &MemoryEngine, name: &str, value: &str, lease: LeaseId) -> Event {
    let value = Bytes::from(value.to_owned());
    write(engine, name, Change::Put { value, lease })
}

fn content(engine: &MemoryEngine) -> BTreeMap<String, String> {
    let request = RangeRequest {
        prefix: Prefix::new("/r/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let items = now(engine.range(request)).unwrap().items.into_iter();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    items
        .map(|item| (text(item.key.as_bytes()), text(&item.value)))
        .collect()
}

fn revision(engine: &MemoryEngine) -> Revision {
    engine.known(&Prefix::new("/")).revision
}

#[test]
fn a_reset_restores_the_content_in_events_after_all_others() {
    let engine = MemoryEngine::new();
    put(&engine, "kept", "1");
    put(&engine, "changed", "1");
    let deleted = put(&engine, "deleted", "1");
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.len(), 3);
    let before = content(&engine);
    put(&engine, "changed", "2");
    write(&engine, "deleted", Change::Delete);
    put(&engine, "owner", "1");
    let newest = put(&engine, "dependent", "1").revision;

    let mut feed = now(engine.feed(Prefix::new("/r/"), newest)).unwrap();
    let mut other = now(engine.feed(Prefix::new("/other/"), newest)).unwrap();
    let reset = engine.reset(&snapshot).unwrap();
    assert_eq!(content(&engine), before);
    assert_eq!(reset, revision(&engine));
    assert_eq!(reset.0, newest.0 + 5, "each key has an event");
    let Some(Ok(FeedItem::Reset { events, revision })) = feed.next().now_or_never() else {
        panic!("the feed was not reset");
    };
    assert_eq!(revision, reset);
    // Dependents go first and come last.
    let shown: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.key.to_string()))
        .collect();
    let at = |kind, name: &str| (kind, key(name).to_string());
    assert_eq!(
        shown,
        [
            at(EventKind::Delete, "dependent"),
            at(EventKind::Delete, "owner"),
            at(EventKind::Put, "kept"),
            at(EventKind::Put, "changed"),
            at(EventKind::Put, "deleted"),
        ]
    );
    let Some(Ok(FeedItem::Reset { events, revision })) = other.next().now_or_never() else {
        panic!("the feed of another prefix was not reset");
    };
    assert!(events.is_empty());
    assert_eq!(revision, reset);

    // Nothing before the reset can be read or followed, and feeds go on after it.
    let early = now(engine.get(key("kept"), At::Revision(deleted.revision)));
    assert!(
        matches!(early, Err(EngineError::Compacted { .. })),
        "{early:?}"
    );
    let request = HistoryRequest {
        prefix: Prefix::new("/r/"),
        after: newest,
        until: reset,
        bytes_max: 1000,
    };
    let history = now(engine.history(request));
    assert!(
        matches!(history, Err(EngineError::Compacted { .. })),
        "{history:?}"
    );
    assert!(now(engine.feed(Prefix::new("/r/"), newest)).is_err());
    let next = put(&engine, "kept", "3");
    match feed.next().now_or_never() {
        Some(Ok(FeedItem::Events(events))) => assert_eq!(events[0].revision, next.revision),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_writer_from_before_a_reset_is_refused() {
    let engine = MemoryEngine::new();
    let written = put(&engine, "same", "1");
    let snapshot = engine.snapshot().unwrap();
    engine.reset(&snapshot).unwrap();
    let late = Mutation {
        key: key("same"),
        expect: Expect::Unchanged(written.revision),
        change: Change::Delete,
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    let outcome = now(engine.commit(late)).unwrap();
    assert!(
        matches!(
            outcome,
            Outcome::Refused {
                current: Some(_),
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[test]
fn a_snapshot_can_be_used_again_and_after_other_resets() {
    let engine = MemoryEngine::new();
    let empty = engine.snapshot().unwrap();
    assert!(empty.is_empty());
    put(&engine, "a", "1");
    let one = engine.snapshot().unwrap();
    put(&engine, "b", "1");
    let two = engine.snapshot().unwrap();
    let mut last = revision(&engine);
    for (snapshot, count) in [(&empty, 0), (&two, 2), (&one, 1), (&one, 1), (&two, 2)] {
        let reset = engine.reset(snapshot).unwrap();
        assert!(reset > last, "{reset} after {last}");
        assert_eq!(content(&engine).len(), count);
        last = reset;
    }
    // Between two empty contents nothing happens.
    let reset = engine.reset(&empty).unwrap();
    assert_eq!(engine.reset(&empty).unwrap(), reset);
}

#[test]
fn keys_have_the_time_left_that_they_had_in_the_snapshot() {
    let seconds = Arc::new(AtomicU64::new(1000));
    let clock = Arc::clone(&seconds);
    let engine = MemoryEngine::with_clock(Arc::new(move || {
        SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::Relaxed))
    }));
    let advance = |by: u64| {
        seconds.fetch_add(by, Ordering::Relaxed);
        now(engine.expire()).unwrap();
    };
    let lease = now(engine.grant(Duration::from_secs(100))).unwrap().id;
    put_with(&engine, "one", "1", lease);
    put_with(&engine, "two", "1", lease);
    put(&engine, "without", "1");
    advance(40);
    let snapshot = engine.snapshot().unwrap();
    advance(70);
    assert_eq!(content(&engine).len(), 1);
    engine.reset(&snapshot).unwrap();
    advance(59);
    assert_eq!(content(&engine).len(), 3);
    advance(1);
    assert_eq!(content(&engine).len(), 1);
}

#[test]
fn a_closed_engine_refuses_both() {
    let engine = MemoryEngine::new();
    let snapshot = engine.snapshot().unwrap();
    now(crate::engine::Engine::close(&*engine));
    assert!(matches!(engine.snapshot(), Err(EngineError::Closed)));
    assert!(matches!(engine.reset(&snapshot), Err(EngineError::Closed)));
}

proptest! {
    #[test]
    fn any_content_is_restored_after_any_writes(
        before in prop::collection::vec((0..6u8, 0..4u8), 0..20),
        after in prop::collection::vec((0..6u8, 0..4u8), 0..20),
    ) {
        let engine = MemoryEngine::new();
        let apply = |writes: &[(u8, u8)]| {
            for (name, value) in writes {
                let name = name.to_string();
                let is_there = content(&engine).contains_key(&format!("/r/{name}"));
                match value {
                    0 if is_there => drop(write(&engine, &name, Change::Delete)),
                    0 => {}
                    value => drop(put(&engine, &name, &value.to_string())),
                }
            }
        };
        apply(&before);
        let (snapshot, expected) = (engine.snapshot().unwrap(), content(&engine));
        apply(&after);
        engine.reset(&snapshot).unwrap();
        prop_assert_eq!(content(&engine), expected);
        // A feed from then on sees exactly the later writes.
        let from = revision(&engine);
        let mut feed = now(engine.feed(Prefix::new("/r/"), from)).unwrap();
        let next = put(&engine, "next", "1");
        let item = feed.next().now_or_never();
        let Some(Ok(FeedItem::Events(events))) = item else {
            panic!("{item:?}");
        };
        prop_assert_eq!(events[0].revision, next.revision);
    }
}
