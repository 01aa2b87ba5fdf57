//! Damage to whole files: cut, emptied, missing, replaced, or changed anywhere.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use actors::engine::Engine;
use taffrail::storage::embedded::EmbeddedEngine;

use crate::faulty::FaultyDisk;
use crate::golden::{Wanting, ask_everything, unpack};
use crate::history_script::{self, Clock, expected_history, run_script};
use crate::verification;

fn open(directory: &Path) -> Result<Arc<EmbeddedEngine>, String> {
    let opened = EmbeddedEngine::open(Clock::default().options(directory));
    opened.map_err(|error| error.to_string())
}

/// A directory that has held a store.
async fn held() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let engine = EmbeddedEngine::open(clock.options(directory.path())).unwrap();
    run_script(&*engine, &clock, &history_script::second()).await;
    engine.close().await;
    directory
}

/// The refusal to open. It must leave every file unchanged.
#[track_caller]
fn refusal(directory: &Path, words: &[&str]) {
    let files = || -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        let kept = entries.filter(|entry| entry.file_name() != "lock");
        let mut files: Vec<_> = kept
            .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let refused = open(directory).err().expect("it opens all the same");
    for word in words {
        assert!(refused.contains(word), "{word} is not in: {refused}");
    }
    assert!(files() == before, "a refused directory was changed");
}

#[tokio::test]
async fn a_store_that_has_gone_or_was_emptied_is_not_taken_for_a_new_one() {
    let directory = held().await;
    let log = directory.path().join("events.redb");
    let whole = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    // The copy of a defragmentation may be all that is left.
    fs::write(directory.path().join("events.redb.rebuilt"), b"copy").unwrap();
    let words = ["/events.redb is damaged", "\"store\"", "backup"];
    refusal(directory.path(), &[&words[..], &["it is missing"]].concat());
    fs::write(&log, b"").unwrap();
    refusal(directory.path(), &[&words[..], &["it is empty"]].concat());
    fs::write(&log, vec![0; whole.len()]).unwrap();
    refusal(directory.path(), &["/events.redb is damaged"]);
    // Another store's log is refused by its ID.
    let other = held().await;
    fs::copy(other.path().join("events.redb"), &log).unwrap();
    let foreign = fs::read_to_string(other.path().join("store")).unwrap();
    let foreign = foreign.trim().strip_prefix("store ").unwrap();
    let refused = open(directory.path()).err().unwrap();
    assert!(
        refused.contains(&format!("it is store {foreign}")),
        "{refused}"
    );
    // The store's own log is accepted again.
    fs::write(&log, &whole).unwrap();
    let engine = open(directory.path()).unwrap();
    assert_eq!(
        ask_everything(&*engine, &expected_history(&history_script::second())).await,
        Ok(())
    );
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_kept() {
    let database_of_others = {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other");
        let database = redb::Database::create(&path).unwrap();
        let table = redb::TableDefinition::<u64, u64>::new("theirs");
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
        drop(database);
        fs::read(path).unwrap()
    };
    let text = b"this is the diary of a sailor, and no database at all\n".repeat(200);
    // Zeros, as an interrupted creation leaves them, and foreign bytes behind them.
    let mut zeros = vec![0; 3 << 20];
    zeros[(2 << 20) + 17] = 1;
    for (bytes, word) in [
        (text, "magic number"),
        (zeros, "magic number"),
        (b"\0\0x".to_vec(), "magic number"),
        (database_of_others, "table meta: it is missing"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("events.redb");
        fs::write(&log, &bytes).unwrap();
        let refused = open(directory.path()).err().unwrap();
        for word in ["/events.redb is damaged", word] {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        assert!(!directory.path().join("store").exists());
        let kept = fs::read(&log).unwrap();
        assert_eq!(kept.len(), bytes.len());
    }
}

#[tokio::test]
async fn a_first_start_that_was_cut_off_is_begun_again() {
    for length in [0, 1, 4096, 1 << 20] {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; length];
        // A header without its magic number.
        if length >= 4096 {
            bytes[9..300].fill(7);
        }
        fs::write(directory.path().join("events.redb"), bytes).unwrap();
        let engine = open(directory.path()).unwrap();
        assert!(directory.path().join("store").exists());
        drop(engine);
        open(directory.path()).unwrap();
    }
}

#[tokio::test]
async fn the_file_with_the_stores_name_is_made_for_old_stores_and_refused_when_damaged() {
    let directory = unpack("store-format-1");
    let mark = directory.path().join("store");
    assert!(!mark.exists());
    drop(open(directory.path()).unwrap());
    let name = fs::read(&mark).unwrap();
    let log = fs::read(directory.path().join("events.redb")).unwrap();
    for damaged in [&b""[..], b"store 12", &name[1..], b"\xff\xfe"] {
        fs::write(&mark, damaged).unwrap();
        refusal(
            directory.path(),
            &["/store is damaged", "/events.redb", "remove"],
        );
    }
    // As the message advises.
    fs::remove_file(&mark).unwrap();
    drop(open(directory.path()).unwrap());
    assert_eq!(fs::read(&mark).unwrap(), name);
    assert_eq!(
        fs::read(directory.path().join("events.redb"))
            .unwrap()
            .len(),
        log.len()
    );
}

#[tokio::test]
async fn an_old_store_opens_on_a_full_disk_and_is_marked_later() {
    let directory = unpack("store-format-1");
    let mark = directory.path().join("store");
    for (kind, opens) in [
        (io::ErrorKind::StorageFull, true),
        (io::ErrorKind::PermissionDenied, false),
    ] {
        let (disk, faults) = FaultyDisk::open(directory.path());
        *faults.identity.lock() = Some(kind);
        let options = Clock::default().options(directory.path());
        let opened = EmbeddedEngine::open_on(disk, options);
        match opened {
            Ok(_) => assert!(opens, "it would forget that it has held a store"),
            Err(error) => assert!(
                !opens && error.to_string().contains("/store can't"),
                "{error}"
            ),
        }
        assert!(!mark.exists());
    }
    drop(open(directory.path()).unwrap());
    assert!(mark.exists());
}

/// However much is cut off: either the file held nothing of the store, or the store is refused.
#[tokio::test]
async fn a_file_that_was_cut_is_refused_or_holds_everything() {
    let directory = held().await;
    let log = directory.path().join("events.redb");
    let whole = fs::read(&log).unwrap();
    let history = expected_history(&history_script::second());
    let mut refused = 0;
    for length in (0..whole.len())
        .step_by(1500)
        .chain([1, 9, 320, whole.len() - 1])
    {
        fs::write(&log, &whole[..length]).unwrap();
        match open(directory.path()) {
            Ok(engine) => {
                let answer = ask_everything(&*engine, &history).await;
                assert_eq!(answer, Ok(()), "{length} of {} bytes", whole.len());
            }
            Err(refusal) => {
                assert!(refusal.contains("/events.redb"), "{refusal}");
                refused += 1;
            }
        }
    }
    println!("{refused} refused");
    assert!(refused > 10);
}

/// Bytes are changed anywhere in the file. A value is shown as it was written or not at all, and
/// verification finds what is missing without an error.
#[tokio::test]
async fn whatever_byte_of_the_file_changes_no_wrong_value_is_shown() {
    let seed = crate::seed();
    let mut dice = history_script::Dice::new(seed);
    let directory = held().await;
    let log = directory.path().join("events.redb");
    let whole = fs::read(&log).unwrap();
    let history = expected_history(&history_script::second());
    // Most of the file is free space. Only pages in use matter.
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut refused, mut same, mut found) = (0, 0, 0);
    for round in 0..300 {
        let mut bytes = whole.clone();
        let at = used[dice.roll(used.len() as u64) as usize];
        bytes[at] ^= 1 << dice.roll(8);
        fs::write(&log, &bytes).unwrap();
        let answer = match open(directory.path()) {
            Ok(engine) => ask_everything(&*engine, &history).await,
            Err(refusal) => Err(Wanting::Refused(refusal)),
        };
        match answer {
            Ok(()) => same += 1,
            Err(Wanting::Refused(refusal)) => {
                let named = refusal.contains("/events.redb");
                assert!(named, "seed {seed}, round {round}, byte {at}: {refusal}");
                refused += 1;
            }
            Err(Wanting::Missing(what)) => {
                println!("seed {seed}, round {round}, byte {at}: {what} is missing");
                fs::write(&log, &bytes).unwrap();
                let damage = verification::damage_found(directory.path()).await;
                assert!(damage.contains("/events.redb"), "{damage}");
                found += 1;
            }
        }
    }
    // Most bytes belong to pages that are no longer in use.
    println!("{refused} refused, {found} found, {same} without effect");
    assert!(refused > 0);
}
