//! Verification while the store serves. Damage is found and reported with file and record. Nothing
//! else counts as damage.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use actors::engine::{
    Change, DataEngine, Engine, Expect, Health, Key, LeaseEngine, LeaseId, MaintenanceEngine,
    Mutation, Origin, Prepared, Revision,
};
use bytes::Bytes;
use redb::WriteTransaction;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::damage::{alter, alter_record, remove_record};
use crate::faulty::FaultyDisk;
use crate::golden::{LIVE, SUPERSEDED, unpack};
use crate::history_script::{Clock, Dice};
use crate::restart::committed;
use crate::seed;

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// As fast as possible.
fn options(directory: &Path) -> EmbeddedOptions {
    EmbeddedOptions {
        verify_bytes_per_second: 1 << 30,
        verify_pause: Duration::from_millis(1),
        ..Clock::default().options(directory)
    }
}

fn open(directory: &Path) -> Arc<EmbeddedEngine> {
    EmbeddedEngine::open(options(directory)).unwrap()
}

/// Waits for a condition, and fails with a message if it does not come.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the whole store was verified after this call.
async fn verified(engine: &EmbeddedEngine) {
    let before = engine.verifications();
    // The current pass may be past the change already.
    let is_over = || (engine.verifications() >= before + 2).then_some(());
    until("two verifications", is_over).await;
}

/// Waits until the whole store was verified after this call, or damage is found. A header that
/// cannot be read ends every pass early.
async fn looked_at(engine: &EmbeddedEngine) {
    let before = engine.verifications();
    let is_over = || engine.damage().is_some() || engine.verifications() >= before + 2;
    until("two verifications", || is_over().then_some(())).await;
}

async fn damage(engine: &EmbeddedEngine) -> String {
    until("damage", || engine.damage()).await
}

/// The damage that verification finds in a store that must be damaged.
pub async fn damage_found(directory: &Path) -> String {
    damage(&open(directory)).await
}

fn put(key: &str, value: Bytes, expect: Expect) -> Mutation {
    Mutation {
        key: Key::new(key),
        expect,
        change: Change::Put {
            value,
            lease: LeaseId(0),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    }
}

/// Bytes that occur nowhere else.
fn text(dice: &mut Dice, length: u64) -> Bytes {
    (0..length).map(|_| dice.roll(256) as u8).collect()
}

/// Some hundred objects of some bytes to some KiB. A third of them is written twice, and some are
/// deleted.
async fn fill(engine: &EmbeddedEngine, dice: &mut Dice) {
    for number in 0..300 {
        let key = format!("/registry/configmaps/default/{number:03}");
        let length = dice.roll(5000);
        let value = text(dice, length);
        let mut revision = committed(engine, put(&key, value, Expect::Absent)).await;
        if number % 3 == 0 {
            let value = text(dice, 100);
            revision = committed(engine, put(&key, value, Expect::Unchanged(revision))).await;
        }
        if number % 7 == 1 {
            let gone = Mutation {
                change: Change::Delete,
                ..put(&key, Bytes::new(), Expect::Unchanged(revision))
            };
            committed(engine, gone).await;
        }
    }
}

#[tokio::test]
async fn whole_stores_of_every_format_are_found_whole() {
    let _shared = crate::PROCESSORS.read().await;
    for name in ["store-format-1", "store-format-2"] {
        let directory = unpack(name);
        let engine = open(directory.path());
        verified(&engine).await;
        assert_eq!(engine.damage(), None, "{name}");
        engine.close().await;
    }
}

/// Writes, deletes, leases, compactions, removals and defragmentations run while pages are
/// verified. None of it is damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_happens_to_a_store_is_taken_for_damage() {
    let _shared = crate::PROCESSORS.read().await;
    let mut dice = Dice::new(seed());
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(EmbeddedOptions {
        verify_pause: Duration::from_micros(100),
        clock: Arc::new(SystemTime::now),
        ..options(directory.path())
    })
    .unwrap();
    let mut present = BTreeMap::new();
    let mut newest = Revision::ZERO;
    for step in 0..1500 {
        assert_eq!(engine.damage(), None, "after {step} steps");
        let key = format!("/registry/secrets/default/{}", dice.roll(200));
        let expect = present
            .get(&key)
            .map_or(Expect::Absent, |at| Expect::Unchanged(*at));
        let length = dice.roll(6000);
        let mutation = put(&key, text(&mut dice, length), expect);
        match dice.roll(20) {
            0 => {
                let up_to = newest.0.saturating_sub(dice.roll(60));
                engine.compact(Revision(up_to)).await.unwrap();
            }
            1..=3 => _ = engine.maintain(dice.roll(2) == 0).await.unwrap(),
            4 if step % 5 == 0 => while engine.purge().await.unwrap().more {},
            5 => {
                let lease = engine.grant(Duration::from_secs(3600)).await.unwrap();
                let mut held = mutation;
                if let Change::Put { lease: of, .. } = &mut held.change {
                    *of = lease.id;
                }
                newest = committed(&engine, held).await;
                present.insert(key, newest);
                if dice.roll(2) == 0 {
                    engine.revoke(lease.id).await.unwrap();
                    present.retain(|_, at| *at != newest);
                }
            }
            6..=8 if present.remove(&key).is_some() => {
                let gone = Mutation {
                    change: Change::Delete,
                    ..mutation
                };
                newest = committed(&engine, gone).await;
            }
            _ => {
                newest = committed(&engine, mutation).await;
                present.insert(key, newest);
            }
        }
    }
    println!("{} verifications meanwhile", engine.verifications());
    verified(&engine).await;
    assert_eq!(engine.damage(), None);
    engine.close().await;
}

/// Changes a byte of the file while the store is in use.
fn flip(file: &File, at: u64, bit: u8) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
}

#[tokio::test]
async fn each_byte_that_is_changed_is_found_or_harmless_and_found_whole_once_it_is_back() {
    let _shared = crate::PROCESSORS.read().await;
    let mut dice = Dice::new(seed());
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, &mut dice).await;
    let path = directory.path().join("events.redb");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    // The work of an idle writer is done by then.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    verified(&engine).await;
    let places = (0..320)
        .step_by(2)
        .chain((0..150).map(|_| dice.roll(length)));
    let places: Vec<u64> = places.collect();
    let (mut found, mut harmless) = (0, Vec::new());
    for at in places {
        let bit = dice.roll(8) as u8;
        flip(&file, at, bit);
        looked_at(&engine).await;
        match engine.damage() {
            Some(text) => {
                found += 1;
                assert!(text.contains("/events.redb is damaged: "), "{text}");
            }
            None => harmless.push((at, bit)),
        }
        flip(&file, at, bit);
        until("a whole store", || engine.damage().is_none().then_some(())).await;
    }
    println!("{found} found of {}", found + harmless.len());
    assert!(found > 60, "{found}");
    // Everything unsynced is lost at once, as in a power loss.
    let copy = tempfile::tempdir().unwrap();
    for name in ["events.redb", "journal-0", "journal-1", "store"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let copied = copy.path().join("events.redb");
    let copied = File::options().read(true).write(true).open(copied).unwrap();
    for (at, bit) in &harmless {
        flip(&copied, *at, *bit);
    }
    let again = open(copy.path());
    let everything = || crate::damage::range(actors::engine::At::Latest);
    let (one, other) = tokio::join!(engine.range(everything()), again.range(everything()));
    assert_eq!(one.unwrap().items, other.unwrap().items, "{harmless:?}");
    verified(&again).await;
    assert_eq!(again.damage(), None);
}

/// Rows that do not match each other, in whole pages.
#[tokio::test]
async fn tables_that_disagree_are_damage_in_pages_that_are_whole() {
    let _shared = crate::PROCESSORS.read().await;
    type Alter = fn(&WriteTransaction);
    let altered: [(Alter, &str); 6] = [
        (
            |t| alter_record(t, 1, |bytes| bytes[40] ^= 1),
            "table events, record 1: its checksum",
        ),
        (
            |t| remove_record(t, 3),
            "table events, record 3: it is missing",
        ),
        (
            |t| {
                let key = b"/registry/configmaps/default/000".as_slice();
                let mut superseded = t.open_table(SUPERSEDED).unwrap();
                superseded.remove((key, 1)).unwrap().unwrap();
            },
            "table events: it has",
        ),
        (
            |t| {
                let key = b"/registry/configmaps/default/000".as_slice();
                let mut superseded = t.open_table(SUPERSEDED).unwrap();
                superseded.insert((key, 1), 2).unwrap();
            },
            "table superseded, key \"/registry/configmaps/default/000\", record 1: it does not fit",
        ),
        (
            |t| {
                let mut live = t.open_table(LIVE).unwrap();
                let row = live.remove(b"/registry/configmaps/default/002".as_slice());
                let row = row.unwrap().unwrap().value();
                let row = (row.0 - 1, row.1 - 1, row.2, row.3);
                live.insert(b"/registry/configmaps/default/002".as_slice(), row)
                    .unwrap();
            },
            "table live, key \"/registry/configmaps/default/002\": it does not fit",
        ),
        (
            |t| {
                let mut live = t.open_table(LIVE).unwrap();
                let row = live.remove(b"/registry/configmaps/default/002".as_slice());
                let row = row.unwrap().unwrap().value();
                live.insert(b"/other".as_slice(), row).unwrap();
            },
            "table live, key \"/other\": it does not fit",
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, &mut Dice::new(1)).await;
    engine.close().await;
    for (alteration, words) in altered {
        let copy = tempfile::tempdir().unwrap();
        for name in ["events.redb", "store"] {
            fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        alter(copy.path(), alteration);
        let engine = open(copy.path());
        let found = damage(&engine).await;
        assert!(found.contains(words), "{words} is not in: {found}");
        assert_eq!(engine.health(), Health::Serving);
        engine.close().await;
    }
}

#[tokio::test]
async fn a_disk_that_fails_and_a_panic_are_damage_and_end_nothing() {
    let _shared = crate::PROCESSORS.read().await;
    let directory = tempfile::tempdir().unwrap();
    let (disk, faults) = FaultyDisk::open(directory.path());
    let engine = EmbeddedEngine::open_on(disk, options(directory.path())).unwrap();
    let one = committed(&engine, put("/a", Bytes::from_static(b"1"), Expect::Absent)).await;
    verified(&engine).await;
    for (fault, words) in [
        (&faults.reads, "can't be read"),
        (&faults.read_panics, "panicked: a fault of the test's"),
    ] {
        fault.store(true, Ordering::SeqCst);
        let found = damage(&engine).await;
        assert!(found.contains(words), "{found}");
        fault.store(false, Ordering::SeqCst);
        until("a whole store", || engine.damage().is_none().then_some(())).await;
    }
    let again = put("/a", Bytes::from_static(b"2"), Expect::Unchanged(one));
    committed(&engine, again).await;
    assert_eq!(engine.health(), Health::Serving);
    engine.close().await;
}

/// A value is damaged in the file. It is replaced, and the old value is compacted.
#[tokio::test]
async fn damage_that_is_compacted_away_is_forgotten() {
    let _shared = crate::PROCESSORS.read().await;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let known = Bytes::from("known to nobody else ".repeat(200));
    let at = committed(&engine, put("/known", known.clone(), Expect::Absent)).await;
    fill(&engine, &mut Dice::new(2)).await;
    verified(&engine).await;
    let path = directory.path().join("events.redb");
    let bytes = fs::read(&path).unwrap();
    let place = bytes
        .windows(known.len())
        .position(|part| part == &known[..])
        .unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    for n in 0..60 {
        flip(&file, place as u64 + 500 + n, 4);
    }
    let found = damage(&engine).await;
    let record = format!("table events, record {at}: its checksum");
    assert!(found.contains(&record), "{found}");
    let next = put("/known", Bytes::from_static(b"2"), Expect::Unchanged(at));
    let next = committed(&engine, next).await;
    engine.compact(next).await.unwrap();
    while engine.maintain(false).await.unwrap().more {}
    until("a whole store", || engine.damage().is_none().then_some(())).await;
    engine.close().await;
}
