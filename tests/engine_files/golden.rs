//! Golden stores: real files of every format, checked in. This version must open them unchanged.
//!
//! A new format comes with a new store. Add a script to `history_script.rs` and a row to
//! [`STORES`]. Then `cargo test --test engine_files write_golden -- --ignored` writes every store
//! that is missing in `tests/fixtures`. A released store is never written again.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use actors::engine::{
    At, Change, DataEngine, Engine, EngineError, Expect, Health, HistoryRequest, Key, KeyValue,
    LeaseId, MaintenanceEngine, Mutation, Origin, Outcome, Prefix, Prepared, RangeRequest,
    Revision,
};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use taffrail::storage::embedded::EmbeddedEngine;
use taffrail::storage::embedded::record::{LeaseRecord, Record};

use crate::history_script::{
    self, Clock, ExpectedHistory, ScriptStep, expected_history, run_script,
};

/// The steps that wrote a store.
type Script = fn() -> Vec<ScriptStep>;

/// The stores and their scripts.
const STORES: &[(&str, Script)] = &[
    ("store-format-1", history_script::first),
    ("store-format-2", history_script::second),
    // As a power loss leaves it: most of it is in the journal only.
    ("store-format-3", history_script::second),
    // The same, with heads in the files of the journal.
    ("store-format-4", history_script::second),
];

/// The files of a store, with the ends of the names of their fixtures.
const FILES: [(&str, &str); 3] = [
    ("events.redb", "redb"),
    ("journal-0", "journal-0"),
    ("journal-1", "journal-1"),
];

fn fixture(name: &str, end: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(format!("{name}.{end}.gz"))
}

/// A directory with a copy of a golden store.
pub fn unpack(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (file, end) in FILES {
        // Stores of older formats have no journal.
        if let Ok(packed) = File::open(fixture(name, end)) {
            let mut bytes = Vec::new();
            GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
            fs::write(directory.path().join(file), bytes).unwrap();
        }
    }
    assert!(directory.path().join("events.redb").exists(), "{name}");
    directory
}

#[tokio::test]
#[ignore = "writes into tests/fixtures: for a new format of the store"]
async fn write_golden_stores() {
    for (name, steps) in STORES {
        if fixture(name, "redb").exists() {
            println!("{name} stays as it is");
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::default();
        let engine = EmbeddedEngine::open(clock.options(directory.path())).unwrap();
        run_script(&*engine, &clock, &steps()).await;
        for (file, end) in FILES {
            let bytes = fs::read(directory.path().join(file)).unwrap();
            let packed = File::create(fixture(name, end)).unwrap();
            let mut packer = GzEncoder::new(packed, Compression::best());
            packer.write_all(&bytes).unwrap();
            packer.finish().unwrap();
        }
        engine.close().await;
    }
}

/// Why a store could not answer everything.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanting {
    /// It refused a question with this error.
    Refused(String),
    /// It lacks a key that it should have.
    Missing(String),
}

impl From<EngineError> for Wanting {
    fn from(error: EngineError) -> Wanting {
        Wanting::Refused(error.to_string())
    }
}

/// Asks a store everything and compares the answers with its script. A wrong answer fails the test.
pub async fn ask_everything(engine: &dyn Engine, history: &ExpectedHistory) -> Result<(), Wanting> {
    let everything = Prefix::new(b"");
    for at in history.compacted.0..=history.revision().0 {
        let expected = history.state_at(Revision(at));
        let request = RangeRequest {
            prefix: everything.clone(),
            start: None,
            at: At::Revision(Revision(at)),
            limit: 0,
            count_only: false,
        };
        let found = engine.range(request).await?;
        agree(&found.items, &expected, at)?;
        for key in [
            history_script::A,
            history_script::B,
            history_script::C,
            history_script::D,
        ]
        .map(Key::new)
        {
            let found = engine.get(key.clone(), At::Revision(Revision(at))).await?;
            let expected = expected.iter().find(|item| item.key == key);
            agree(found.item.as_slice(), expected.cloned().as_slice(), at)?;
        }
    }
    for item in history.state_at(history.revision()) {
        let found = engine.get(item.key.clone(), At::Latest).await?;
        agree(found.item.as_slice(), &[item], history.revision().0)?;
    }
    let request = HistoryRequest {
        prefix: everything,
        after: history.compacted,
        until: Revision::MAX,
        bytes_max: usize::MAX,
    };
    let answer = engine.history(request).await?;
    let retained = history.events.range(history.compacted.next()..);
    let expected: Vec<_> = retained.map(|(_, event)| event.clone()).collect();
    assert_eq!(answer.events, expected);
    assert_eq!(answer.reached, history.revision());
    Ok(())
}

/// Checks that what was found at a revision is expected, or a part of it.
fn agree(found: &[KeyValue], expected: &[KeyValue], at: u64) -> Result<(), Wanting> {
    if found == expected {
        return Ok(());
    }
    let part: Vec<_> = expected
        .iter()
        .filter(|item| found.contains(item))
        .cloned()
        .collect();
    assert_eq!(found, part, "the state at {at}");
    let missing = expected.iter().filter(|item| !found.contains(item));
    let missing: Vec<_> = missing.map(|item| item.key.to_string()).collect();
    Err(Wanting::Missing(format!("{} at {at}", missing.join(", "))))
}

/// Checks a whole store: its totals and every answer.
async fn examine(engine: &dyn Engine, history: &ExpectedHistory) {
    let everything = Prefix::new(b"");
    assert_eq!(engine.health(), Health::Serving);
    assert_eq!(engine.compacted(), history.compacted);
    assert_eq!(engine.known(&everything).revision, history.revision());
    let live = history.state_at(history.revision());
    assert_eq!(engine.stats().live_keys, live.len() as u64);
    assert_eq!(ask_everything(engine, history).await, Ok(()));
    let before = Revision(history.compacted.0 - 1);
    let refused = engine
        .get(Key::new(history_script::A), At::Revision(before))
        .await;
    let compacted = EngineError::Compacted {
        requested: before,
        compacted: history.compacted,
    };
    assert_eq!(refused.unwrap_err(), compacted);
    let request = HistoryRequest {
        prefix: everything,
        after: before,
        until: Revision::MAX,
        bytes_max: usize::MAX,
    };
    assert_eq!(engine.history(request).await.unwrap_err(), compacted);
}

#[tokio::test]
async fn stores_of_every_format_open_as_they_were_and_go_on() {
    for (name, steps) in STORES {
        let directory = unpack(name);
        let mut history = expected_history(&steps());
        let clock = Clock::default();
        let engine = EmbeddedEngine::open(clock.options(directory.path())).unwrap();
        examine(&*engine, &history).await;
        // Removes what the old version compacted and had not removed yet.
        while engine.maintain(false).await.unwrap().more {}
        history.scrubbed = history.compacted;
        examine(&*engine, &history).await;
        let mutation = Mutation {
            key: Key::new("/registry/later"),
            expect: Expect::Absent,
            change: Change::Put {
                value: Bytes::from_static(b"new"),
                lease: LeaseId(0),
            },
            origin: Origin::default(),
            prepared: Prepared::default(),
        };
        let Outcome::Committed(event) = engine.commit(mutation).await.unwrap() else {
            panic!("refused")
        };
        assert_eq!(event.revision, history.revision().next());
        history.events.insert(event.revision, event);
        engine.close().await;
        drop(engine);
        let engine = EmbeddedEngine::open(clock.options(directory.path())).unwrap();
        examine(&*engine, &history).await;
    }
}

pub const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
pub const LIVE: TableDefinition<&[u8], (u64, u64, u64, u32)> = TableDefinition::new("live");
pub const SUPERSEDED: TableDefinition<(&[u8], u64), u8> = TableDefinition::new("superseded");
pub const TIMELINE: TableDefinition<u64, (u64, u64)> = TableDefinition::new("timeline");
pub const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

pub const LEASES: TableDefinition<u64, &[u8]> = TableDefinition::new("leases");
pub const ATTACHED: TableDefinition<(u64, u64), ()> = TableDefinition::new("attached");

/// What format 2 adds to the rows of format 1.
#[test]
fn the_rows_of_leases_are_those_that_are_written_down() {
    let directory = unpack("store-format-2");
    let database = Database::open(directory.path().join("events.redb")).unwrap();
    let transaction = database.begin_read().unwrap();
    let meta = transaction.open_table(META).unwrap();
    let row = |name: &str| meta.get(name).unwrap().unwrap().value().to_vec();
    assert_eq!(row("format"), [2, 0, 0, 0]);
    let bytes = row("leases");
    let columns = bytes.as_chunks().0.iter();
    let columns: Vec<u64> = columns.map(|column| u64::from_le_bytes(*column)).collect();
    // Four leases were granted. The last step was in the thirteenth second, and its event is the
    // thirteenth.
    let begin = 1_700_000_000_000_000_000;
    assert_eq!(columns, [4, begin + 13 * 1_000_000_001]);
    let leases = transaction.open_table(LEASES).unwrap();
    let rows = leases.iter().unwrap().map(Result::unwrap);
    let rows: Vec<(u64, LeaseRecord)> = rows
        .map(|(lease, bytes)| {
            let record = LeaseRecord::decode(LeaseId(lease.value()), bytes.value());
            (lease.value(), record.unwrap())
        })
        .collect();
    let ttl = Duration::from_secs(3600);
    let granted = LeaseRecord {
        revoked: false,
        ttl,
        deadline: Duration::from_nanos(begin + 1_000_000_001) + ttl,
    };
    assert_eq!(rows, [(1, granted)], "the others have ended");
    let attached = transaction.open_table(ATTACHED).unwrap();
    let rows = attached.iter().unwrap().map(|row| row.unwrap().0.value());
    // The first of the two puts was replaced since.
    assert_eq!(rows.collect::<Vec<_>>(), [(1, 2), (1, 11)]);
    let events = transaction.open_table(EVENTS).unwrap();
    let tag = |revision: u64| events.get(revision).unwrap().unwrap().value()[5];
    assert_eq!([8, 9, 13].map(tag), [1, 5, 5]);
}

/// The tables hold what `FORMAT.md` says, read here without the engine.
#[test]
fn the_rows_of_format_1_are_those_that_are_written_down() {
    let directory = unpack("store-format-1");
    let history = expected_history(&history_script::first());
    let database = Database::open(directory.path().join("events.redb")).unwrap();
    let transaction = database.begin_read().unwrap();
    let names = transaction.list_tables().unwrap();
    let mut names: Vec<String> = names
        .map(|table| redb::TableHandle::name(&table).to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["events", "live", "meta", "superseded", "timeline"]);

    let events = transaction.open_table(EVENTS).unwrap();
    let mut sizes = std::collections::BTreeMap::new();
    for row in events.iter().unwrap() {
        let (revision, bytes) = row.unwrap();
        let revision = Revision(revision.value());
        let found = Record::decode(revision, bytes.value()).unwrap().to_event();
        let mut expected = history.events[&revision].clone();
        expected.previous = None;
        assert_eq!(found, expected);
        sizes.insert(revision, bytes.value().len() as u64);
    }
    assert!(sizes.keys().copied().eq(history.retained()), "{sizes:?}");

    let live = transaction.open_table(LIVE).unwrap();
    let rows: Vec<_> = live.iter().unwrap().map(Result::unwrap).collect();
    let state = history.state_at(history.revision());
    assert_eq!(rows.len(), state.len());
    for ((key, row), item) in rows.iter().zip(&state) {
        let size = sizes[&item.revision] as u32;
        let columns = (item.revision.0, item.create_revision.0, item.version, size);
        assert_eq!((key.value(), row.value()), (item.key.as_bytes(), columns));
    }

    let superseded = transaction.open_table(SUPERSEDED).unwrap();
    let mut rows: Vec<(u64, u8)> = Vec::new();
    for row in superseded.iter().unwrap() {
        let (place, tag) = row.unwrap();
        let (key, revision) = place.value();
        assert_eq!(key, history.events[&Revision(revision)].key.as_bytes());
        rows.push((revision, tag.value()));
    }
    rows.sort_unstable();
    // 1 is a value and 2 a deletion. What the first four events superseded is removed.
    assert_eq!(rows, [(3, 1), (5, 1), (6, 1), (7, 1), (9, 2)]);

    let timeline = transaction.open_table(TIMELINE).unwrap();
    let rows: Vec<_> = timeline.iter().unwrap().map(Result::unwrap).collect();
    let revisions: Vec<u64> = rows.iter().map(|(revision, _)| revision.value()).collect();
    assert_eq!(
        revisions,
        [5, 6, 7, 8, 9, 10, 11],
        "one a second, after the removed ones"
    );
    for (revision, row) in &rows {
        let time = history.events[&Revision(revision.value())].time;
        let nanos = time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert_eq!(row.value().0, nanos);
    }

    let meta = transaction.open_table(META).unwrap();
    let row = |name: &str| meta.get(name).unwrap().unwrap().value().to_vec();
    let mut names: Vec<String> = Vec::new();
    for row in meta.iter().unwrap() {
        names.push(row.unwrap().0.value().to_owned());
    }
    assert_eq!(
        names,
        ["compacted", "format", "scrubbed", "store", "totals"]
    );
    assert_eq!(row("format"), [1, 0, 0, 0]);
    assert_eq!(row("store").len(), 16);
    assert_eq!(row("compacted"), [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(row("scrubbed"), [4, 0, 0, 0, 0, 0, 0, 0]);
    let totals: Vec<u64> = row("totals")
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect();
    let last = rows.last().unwrap().1.value();
    assert_eq!(totals, [11, 3, sizes.values().sum(), last.1, last.0]);
}
