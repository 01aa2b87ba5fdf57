//! Damage inside the database: every row that is not what was written is refused by the name of
//! file, table and record, and nothing is left out in silence.

use std::path::Path;
use std::sync::Arc;

use actors::engine::{
    At, Change, Engine, EngineError, Expect, FeedItem, Health, HistoryRequest, Key, LeaseId,
    Mutation, Origin, Outcome, Prefix, RangeRequest, Revision,
};
use bytes::Bytes;
use futures_util::future::join_all;
use redb::{Database, ReadableTable, WriteTransaction};
use taffrail::storage::embedded::EmbeddedEngine;

use crate::golden::{EVENTS, LIVE, META, SUPERSEDED, TIMELINE, unpack};
use crate::story::{self, Clock};

/// Changes a store behind the engine's back.
fn alter(directory: &Path, change: impl FnOnce(&WriteTransaction)) {
    let database = Database::open(directory.join("events.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

fn remove_record(transaction: &WriteTransaction, revision: u64) {
    let mut events = transaction.open_table(EVENTS).unwrap();
    events.remove(revision).unwrap().unwrap();
}

fn alter_record(transaction: &WriteTransaction, revision: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let mut events = transaction.open_table(EVENTS).unwrap();
    let mut bytes = events.get(revision).unwrap().unwrap().value().to_vec();
    change(&mut bytes);
    events.insert(revision, bytes.as_slice()).unwrap();
}

/// How the golden store is refused after a change: the words must all be said.
#[track_caller]
fn refused(change: impl FnOnce(&WriteTransaction), words: &[&str]) {
    let directory = unpack("store-format-1");
    alter(directory.path(), change);
    let refusal = EmbeddedEngine::open(Clock::default().options(directory.path()));
    let refusal = refusal.err().expect("it opens all the same").to_string();
    for word in words.iter().chain(&["/events.redb"]) {
        assert!(refusal.contains(word), "{word} is not in: {refusal}");
    }
}

#[test]
fn every_record_of_the_newest_is_read_when_the_store_is_opened() {
    for revision in 5..=11 {
        let record = format!("table events, record {revision}:");
        let flip = |t: &WriteTransaction| alter_record(t, revision, |bytes| bytes[9] ^= 4);
        refused(flip, &[&record, "checksum", "backup"]);
        let cut = |t: &WriteTransaction| alter_record(t, revision, |bytes| bytes.truncate(4));
        refused(cut, &[&record, "cut short at 4 bytes"]);
        let later = |t: &WriteTransaction| alter_record(t, revision, |bytes| bytes[0] = 2);
        refused(later, &[&record, "version is 2"]);
        refused(|t| remove_record(t, revision), &[&record, "missing"]);
    }
    // A whole record, at another revision than its own.
    let moved = |t: &WriteTransaction| {
        let mut events = t.open_table(EVENTS).unwrap();
        let bytes = events.get(10).unwrap().unwrap().value().to_vec();
        events.insert(8, bytes.as_slice()).unwrap();
    };
    refused(moved, &["table events, record 8:", "checksum"]);
    let beyond = |t: &WriteTransaction| {
        let mut events = t.open_table(EVENTS).unwrap();
        events.insert(12, b"".as_slice()).unwrap();
    };
    refused(beyond, &["table events, record 12:", "beyond"]);
}

#[test]
fn the_rows_about_the_store_must_all_be_there_and_fit() {
    for name in ["format", "store", "totals", "compacted", "scrubbed"] {
        let gone = |t: &WriteTransaction| {
            t.open_table(META).unwrap().remove(name).unwrap();
        };
        refused(gone, &["table meta", name]);
        let short = |t: &WriteTransaction| {
            let mut meta = t.open_table(META).unwrap();
            meta.insert(name, b"123".as_slice()).unwrap();
        };
        refused(short, &["table meta", name]);
    }
    let put = |name: &'static str, bytes: Vec<u8>| {
        move |t: &WriteTransaction| {
            let mut meta = t.open_table(META).unwrap();
            meta.insert(name, bytes.as_slice()).unwrap();
        }
    };
    refused(
        put("format", vec![9, 1, 0, 0]),
        &["format 265", "up to 1", "newer"],
    );
    refused(
        put("format", vec![0; 4]),
        &["table meta", "row format is 0"],
    );
    let beyond = 12u64.to_le_bytes().to_vec();
    refused(
        put("compacted", beyond.clone()),
        &["table meta", "compacted 12"],
    );
    refused(put("scrubbed", beyond), &["table meta", "scrubbed 12"]);
    // More events than there are, fewer than there are, another number of keys.
    for (place, number, words) in [
        (0, 12, ["table events", "record 12"]),
        (0, 10, ["table events", "record 11"]),
        (1, 4, ["table live", "3 keys"]),
    ] {
        let change = |t: &WriteTransaction| {
            let mut meta = t.open_table(META).unwrap();
            let mut totals = meta.get("totals").unwrap().unwrap().value().to_vec();
            totals[place * 8] = number;
            meta.insert("totals", totals.as_slice()).unwrap();
        };
        refused(change, &words);
    }
}

#[test]
fn tables_and_live_keys_must_be_there() {
    let gone = |t: &WriteTransaction| assert!(t.delete_table(META).unwrap());
    refused(gone, &["table meta", "missing"]);
    refused(|t| assert!(t.delete_table(EVENTS).unwrap()), &["'events'"]);
    refused(|t| assert!(t.delete_table(LIVE).unwrap()), &["'live'"]);
    refused(
        |t| assert!(t.delete_table(SUPERSEDED).unwrap()),
        &["'superseded'"],
    );
    refused(
        |t| assert!(t.delete_table(TIMELINE).unwrap()),
        &["'timeline'"],
    );
    let key = |t: &WriteTransaction| {
        t.open_table(LIVE).unwrap().remove(story::A).unwrap();
    };
    refused(key, &["table live", "2 keys", "3"]);
    let row = |t: &WriteTransaction| {
        t.open_table(LIVE)
            .unwrap()
            .insert(story::A, (99, 1, 1, 9))
            .unwrap();
    };
    refused(row, &["table live", "default/a", "99"]);
}

/// As many keys as there should be, and one of them is another.
#[tokio::test]
async fn a_live_key_that_was_never_written_is_refused_when_it_is_read() {
    let directory = unpack("store-format-1");
    alter(directory.path(), |t| {
        let mut live = t.open_table(LIVE).unwrap();
        let row = live.remove(story::A).unwrap().unwrap().value();
        live.insert(b"/registry/other".as_slice(), row).unwrap();
    });
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    let error = engine.range(range(At::Latest)).await.unwrap_err();
    is_damage(&error, 10);
    assert!(error.to_string().contains("default/a"), "{error}");
}

/// Every past state, asked for whole; the words of the first refusal.
async fn ask_all_states(directory: &Path) -> String {
    let engine = EmbeddedEngine::open(Clock::default().options(directory)).unwrap();
    let mut refusals = Vec::new();
    for at in 7..=11 {
        let request = range(At::Revision(Revision(at)));
        if let Err(error) = engine.range(request).await {
            assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
            refusals.push(error.to_string());
        }
    }
    assert_eq!(engine.health(), Health::Serving);
    refusals.into_iter().next().expect("no state is refused")
}

fn range(at: At) -> RangeRequest {
    RangeRequest {
        prefix: Prefix::new(b""),
        start: None,
        at,
        limit: 0,
        count_only: false,
    }
}

#[tokio::test]
async fn a_past_state_is_not_told_from_rows_that_have_got_lost() {
    // The golden store's rows whose record is not of the horizon alone.
    let rows: [(&[u8], u64); 4] = [(story::A, 6), (story::B, 7), (story::C, 5), (story::C, 9)];
    for (key, revision) in rows {
        for change in ["missing", "another tag"] {
            let directory = unpack("store-format-1");
            alter(directory.path(), |t| {
                let mut superseded = t.open_table(SUPERSEDED).unwrap();
                match change {
                    "missing" => superseded.remove((key, revision)).unwrap(),
                    _ => superseded.insert((key, revision), 3).unwrap(),
                };
            });
            let refusal = ask_all_states(directory.path()).await;
            let name = String::from_utf8_lossy(key);
            for word in ["/events.redb", "table superseded", &name] {
                assert!(refusal.contains(word), "{word}: {refusal}");
            }
            let numbers = [format!("record {revision}:"), "record 5:".to_owned()];
            assert!(
                numbers.iter().any(|word| refusal.contains(word)),
                "{refusal}"
            );
        }
    }
}

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
    }
}

/// A store with more events than opening reads: a hundred keys, updated in turn.
async fn long_store() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    // Few enough at once that they are polled in their order.
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

fn is_damage(error: &EngineError, revision: u64) {
    let text = error.to_string();
    assert!(matches!(error, EngineError::Corrupt(_)), "{error:?}");
    let record = format!("table events, record {revision}:");
    for word in ["/events.redb", record.as_str()] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// Reads the log until it refuses; says how far it came.
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
        // Nothing else is in the way.
        let latest = engine.get(key_of(MIDDLE), At::Latest).await.unwrap();
        assert_eq!(latest.item.unwrap().revision, Revision(650));
        // What is compacted is not removed past the damage, however often that is tried.
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
    // The newest put of a key, too long ago for opening to look at it.
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
