//! Damage inside the database: every damaged row is refused with the names of file, table and
//! record. Nothing is skipped silently.

use std::path::Path;

use actors::engine::{At, DataEngine, EngineError, Health, Prefix, RangeRequest, Revision};
use redb::{Database, ReadableTable, WriteTransaction};
use taffrail::storage::embedded::EmbeddedEngine;

use crate::golden::{ATTACHED, EVENTS, LEASES, LIVE, META, SUPERSEDED, TIMELINE, unpack};
use crate::history_script::{self, Clock};

/// Changes the file of a store while no engine has it.
pub fn alter(directory: &Path, change: impl FnOnce(&WriteTransaction)) {
    let database = Database::open(directory.join("events.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

pub fn remove_record(transaction: &WriteTransaction, revision: u64) {
    let mut events = transaction.open_table(EVENTS).unwrap();
    events.remove(revision).unwrap().unwrap();
}

pub fn alter_record(
    transaction: &WriteTransaction,
    revision: u64,
    change: impl FnOnce(&mut Vec<u8>),
) {
    let mut events = transaction.open_table(EVENTS).unwrap();
    let mut bytes = events.get(revision).unwrap().unwrap().value().to_vec();
    change(&mut bytes);
    events.insert(revision, bytes.as_slice()).unwrap();
}

/// The refusal of the golden store of format 1 after a change. The refusal must contain all these
/// words.
#[track_caller]
fn refused(change: impl FnOnce(&WriteTransaction), words: &[&str]) {
    refused_of("store-format-1", change, words);
}

#[track_caller]
fn refused_of(store: &str, change: impl FnOnce(&WriteTransaction), words: &[&str]) {
    let directory = unpack(store);
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
    // A whole record at another revision than its own.
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
        &["format 265", "up to 4", "newer"],
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
    // More events than exist, fewer than exist, another number of keys.
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
fn what_concerns_leases_must_be_there_and_fit() {
    let refused = |change: fn(&WriteTransaction), words: &[&str]| {
        refused_of("store-format-2", change, words);
    };
    refused(|t| assert!(t.delete_table(LEASES).unwrap()), &["'leases'"]);
    refused(
        |t| assert!(t.delete_table(ATTACHED).unwrap()),
        &["'attached'"],
    );
    let totals = |t: &WriteTransaction| {
        t.open_table(META).unwrap().remove("leases").unwrap();
    };
    refused(totals, &["table meta", "row leases"]);
    let moved = |t: &WriteTransaction| {
        let mut leases = t.open_table(LEASES).unwrap();
        let bytes = leases.get(1).unwrap().unwrap().value().to_vec();
        leases.insert(9, bytes.as_slice()).unwrap();
    };
    refused(moved, &["table leases, lease 9:", "checksum"]);
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
        t.open_table(LIVE)
            .unwrap()
            .remove(history_script::A)
            .unwrap();
    };
    refused(key, &["table live", "2 keys", "3"]);
}

/// Opening reads no rows of live keys, however many there are. Reading does.
#[tokio::test]
async fn a_live_key_of_a_revision_that_there_is_not_is_refused_when_it_is_read() {
    let directory = unpack("store-format-1");
    alter(directory.path(), |t| {
        let mut live = t.open_table(LIVE).unwrap();
        live.insert(history_script::A, (99, 1, 1, 9)).unwrap();
    });
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    let error = engine.range(range(At::Latest)).await.unwrap_err();
    is_damage(&error, 99);
}

/// The right number of keys, one of which is another key.
#[tokio::test]
async fn a_live_key_that_was_never_written_is_refused_when_it_is_read() {
    let directory = unpack("store-format-1");
    alter(directory.path(), |t| {
        let mut live = t.open_table(LIVE).unwrap();
        let row = live.remove(history_script::A).unwrap().unwrap().value();
        live.insert(b"/registry/other".as_slice(), row).unwrap();
    });
    let engine = EmbeddedEngine::open(Clock::default().options(directory.path())).unwrap();
    let error = engine.range(range(At::Latest)).await.unwrap_err();
    is_damage(&error, 10);
    assert!(error.to_string().contains("default/a"), "{error}");
}

/// Reads every past state. Answers the text of the first refusal.
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

pub fn range(at: At) -> RangeRequest {
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
    // The rows of the golden store whose record is not only of the oldest retained state.
    let rows: [(&[u8], u64); 4] = [
        (history_script::A, 6),
        (history_script::B, 7),
        (history_script::C, 5),
        (history_script::C, 9),
    ];
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

/// Whether a record is refused as damaged, and which.
#[track_caller]
pub fn is_damage(error: &EngineError, revision: u64) {
    let text = error.to_string();
    assert!(matches!(error, EngineError::Corrupt(_)), "{error:?}");
    let record = format!("table events, record {revision}:");
    for word in ["/events.redb", record.as_str()] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
