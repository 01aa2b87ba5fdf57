//! Damage in the middle of the log, which opening does not read. Requests that need the damaged
//! record get an error. All others continue.

use std::sync::Arc;

use actors::engine::{
    At, Change, DataEngine, Engine, EngineError, Expect, FeedItem, Health, HistoryRequest, Key,
    LeaseId, MaintenanceEngine, Mutation, Origin, Outcome, Prefix, Prepared, Revision,
};
use bytes::Bytes;
use futures_util::future::join_all;
use taffrail::storage::embedded::EmbeddedEngine;

use crate::damage::{alter, alter_record, is_damage, range, remove_record};
use crate::history_script::Clock;
use crate::restart::serving;

const MIDDLE: u64 = 250;
const EVENTS_WRITTEN: u64 = 700;

fn key_of(number: u64) -> Key {
    Key::new(format!("/registry/pods/ns/{:03}", number % 100))
}

fn put(key: Key, expect: Expect) -> Mutation {
    Mutation {
        key,
        expect,
        change: Change::Put {
            value: Bytes::from_static(b"value"),
            lease: LeaseId(0),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    }
}

/// A store with more events than opening reads: a hundred keys, updated in turn.
async fn long_store() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    // Few enough at once that they are polled in order.
    for first in (1..=EVENTS_WRITTEN).step_by(20) {
        let commits = (first..first + 20).map(|number| {
            let expect = match number {
                ..=100 => Expect::Absent,
                _ => Expect::Unchanged(Revision(number - 100)),
            };
            engine.commit(put(key_of(number), expect))
        });
        for outcome in join_all(commits).await {
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        }
    }
    engine.close().await;
    directory
}

/// Reads the log until it refuses. Answers how far it came.
async fn read_log(engine: &EmbeddedEngine) -> (u64, EngineError) {
    let mut request = HistoryRequest {
        prefix: Prefix::new(b"/registry/"),
        after: engine.compacted(),
        until: Revision::MAX,
        bytes_max: 1000,
    };
    loop {
        match engine.history(request.clone()).await {
            Ok(chunk) => {
                let first = chunk.events.first().map(|event| event.revision);
                assert_eq!(first, Some(request.after.next()));
                request.after = chunk.reached;
                assert_ne!(request.after, Revision(EVENTS_WRITTEN), "read to its end");
            }
            Err(error) => return (request.after.0, error),
        }
    }
}

async fn feed_until_refused(engine: &Arc<EmbeddedEngine>) -> (u64, EngineError) {
    let prefix = Prefix::new(b"/registry/");
    let mut feed = engine.feed(prefix, Revision::ZERO).await.unwrap();
    let mut fed = 0;
    loop {
        match feed.next().await {
            Ok(FeedItem::Events(events)) => {
                for event in events.iter() {
                    assert_eq!(event.revision.0, fed + 1);
                    fed += 1;
                }
            }
            Ok(reset @ FeedItem::Reset { .. }) => panic!("{reset:?}"),
            Ok(FeedItem::Progress(revision)) => assert!(revision.0 < MIDDLE, "{revision}"),
            Err(error) => return (fed, error),
        }
    }
}

#[tokio::test]
async fn a_record_in_the_middle_is_missed_by_whoever_comes_to_it() {
    for missing in [true, false] {
        let directory = long_store().await;
        alter(directory.path(), |t| match missing {
            true => remove_record(t, MIDDLE),
            false => alter_record(t, MIDDLE, |bytes| bytes[30] ^= 1),
        });
        let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
        let (reached, error) = read_log(&engine).await;
        is_damage(&error, MIDDLE);
        assert!(reached < MIDDLE);
        let (fed, error) = feed_until_refused(&engine).await;
        is_damage(&error, MIDDLE);
        assert!(fed < MIDDLE);
        let get = engine.get(key_of(MIDDLE), At::Revision(Revision(MIDDLE + 20)));
        is_damage(&get.await.unwrap_err(), MIDDLE);
        let range = engine.range(range(At::Revision(Revision(MIDDLE))));
        is_damage(&range.await.unwrap_err(), MIDDLE);
        // Everything else works.
        let latest = engine.get(key_of(MIDDLE), At::Latest).await.unwrap();
        assert_eq!(latest.item.unwrap().revision, Revision(650));
        // Compacted records behind the damage are not removed, however often that is tried.
        engine.compact(Revision(600)).await.unwrap();
        for _ in 0..3 {
            let error = loop {
                match engine.maintain(false).await {
                    Ok(step) => assert!(step.more, "removed past the damage"),
                    Err(error) => break error,
                }
            };
            is_damage(&error, MIDDLE);
        }
        assert_eq!(engine.health(), Health::Serving);
        let next = put(key_of(MIDDLE), Expect::Unchanged(Revision(650)));
        let next = engine.commit(next).await.unwrap();
        assert!(matches!(next, Outcome::Committed(event) if event.revision.0 == 701));
    }
}

#[tokio::test]
async fn a_live_value_that_is_damaged_is_refused_and_others_are_not() {
    let directory = long_store().await;
    // The newest put of a key, too old for opening to read it.
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    let old = put(Key::new("/registry/pods/ns/old"), Expect::Absent);
    engine.commit(old).await.unwrap();
    let mut last = Revision(700);
    for _ in 0..300 {
        let next = put(key_of(700), Expect::Unchanged(last));
        let Outcome::Committed(event) = engine.commit(next).await.unwrap() else {
            panic!("refused")
        };
        last = event.revision;
    }
    engine.close().await;
    drop(engine);
    alter(directory.path(), |t| {
        alter_record(t, 701, |bytes| bytes[2] ^= 1)
    });
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    let key = Key::new("/registry/pods/ns/old");
    is_damage(&engine.get(key.clone(), At::Latest).await.unwrap_err(), 701);
    is_damage(&engine.range(range(At::Latest)).await.unwrap_err(), 701);
    let refused = engine.commit(put(key, Expect::Absent)).await;
    is_damage(&refused.unwrap_err(), 701);
    let other = engine.get(key_of(1), At::Latest).await.unwrap();
    assert_eq!(other.item.unwrap().revision, Revision(601));
    assert_eq!(engine.health(), Health::Serving);
}

/// Commits write a table that they need not read. What meets a damaged page of it is refused before
/// it is durable, because the store could not be opened with it.
#[tokio::test]
async fn a_damaged_page_that_a_commit_would_change_stops_no_other_key() {
    let directory = long_store().await;
    let path = directory.path().join("events.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    // A row of `superseded`, in leaves only.
    let row = [key_of(50).as_bytes(), &150u64.to_le_bytes()[..]].concat();
    let found = (0..bytes.len() - row.len()).filter(|at| bytes[*at..].starts_with(&row));
    let pages = found.map(|at| at / 4096 * 4096);
    let leaves: Vec<usize> = pages.filter(|page| bytes[*page] == 1).collect();
    assert!(!leaves.is_empty());
    for page in leaves {
        // As many rows as there can't be.
        bytes[page + 2..page + 4].copy_from_slice(&[0xff; 2]);
    }
    std::fs::write(&path, bytes).unwrap();
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    for round in 0..3 {
        let other = Key::new(format!("/registry/pods/other/{round}"));
        let done = engine.commit(put(other, Expect::Absent)).await;
        assert!(matches!(done, Ok(Outcome::Committed(_))), "{done:?}");
        let hit = put(key_of(50), Expect::Unchanged(Revision(650)));
        let refused = engine.commit(hit).await.unwrap_err();
        assert!(
            refused.to_string().contains("the page at byte"),
            "{refused}"
        );
        serving(&engine).await;
    }
}
