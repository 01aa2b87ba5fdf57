//! The journal: what a crash leaves in it comes back, and damage to it is refused.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Change, Origin, Outcome};
use actors::engine::{
    DataEngine, Engine, Expect, Key, LeaseEngine, LeaseId, MaintenanceEngine, Mutation, Prefix,
    Prepared, Revision,
};
use bytes::Bytes;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions, OpenError};

const BLOCK: usize = 4096;
const FILES: [&str; 2] = ["journal-0", "journal-1"];

fn options(directory: &Path) -> EmbeddedOptions {
    EmbeddedOptions {
        journal_bytes: 256 * 1024,
        ..EmbeddedOptions::new(directory)
    }
}

fn open(directory: &Path) -> Result<Arc<EmbeddedEngine>, OpenError> {
    EmbeddedEngine::open(options(directory))
}

async fn put(engine: &EmbeddedEngine, name: &str, value: Vec<u8>) -> Revision {
    let mutation = Mutation {
        key: Key::new(format!("/registry/{name}")),
        expect: Expect::Absent,
        change: Change::Put {
            value: Bytes::from(value),
            lease: LeaseId(0),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    match engine.commit(mutation).await.unwrap() {
        Outcome::Committed(event) => event.revision,
        refused @ Outcome::Refused { .. } => panic!("{refused:?}"),
    }
}

/// Copies the files as a crash would leave them.
fn crashed(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["events.redb", "store"].iter().chain(&FILES) {
        fs::copy(directory.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// A store that crashed with these many groups in its journal. The first commit is in redb.
async fn with_groups(groups: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).unwrap();
    for number in 0..=groups {
        put(&engine, &number.to_string(), vec![b'v'; 100]).await;
    }
    let copy = crashed(directory.path());
    engine.close().await;
    copy
}

fn revision(engine: &EmbeddedEngine) -> u64 {
    engine.known(&Prefix::new(b"")).revision.0
}

/// The fields of a group, read as `FORMAT.md` says.
#[derive(Debug, PartialEq, Eq)]
struct GroupFields {
    number: u64,
    first: u64,
    last: u64,
    bytes: Range<usize>,
}

fn groups_in(journal: &[u8]) -> Vec<GroupFields> {
    let number = |at: usize| u64::from_le_bytes(journal[at..at + 8].try_into().unwrap());
    let mut groups = Vec::new();
    let mut at = 0;
    while journal.get(at..at + 4) == Some(b"tfjg") {
        let length = u32::from_le_bytes(journal[at + 40..at + 44].try_into().unwrap());
        groups.push(GroupFields {
            number: number(at + 16),
            first: number(at + 24),
            last: number(at + 32),
            bytes: at..at + 44 + length as usize,
        });
        at += (44 + length as usize).next_multiple_of(BLOCK);
    }
    groups
}

#[tokio::test]
async fn what_a_crash_leaves_in_the_journal_comes_back() {
    let directory = with_groups(5).await;
    let journal = fs::read(directory.path().join("journal-0")).unwrap();
    let groups = groups_in(&journal);
    let numbers: Vec<_> = groups.iter().map(|g| (g.number, g.first, g.last)).collect();
    assert_eq!(
        numbers,
        [(1, 2, 2), (2, 3, 3), (3, 4, 4), (4, 5, 5), (5, 6, 6)]
    );
    for _ in 0..2 {
        let engine = open(directory.path()).unwrap();
        assert_eq!(revision(&engine), 6);
        engine.close().await;
    }
    // A store that was closed is whole without its journal.
    for name in FILES {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    let engine = open(directory.path()).unwrap();
    assert_eq!(revision(&engine), 6);
    assert_eq!(put(&engine, "later", vec![b'v']).await, Revision(7));
    engine.close().await;
}

/// A group is written after the one before is durable. So a damaged one before another is not the
/// end of what was written.
#[tokio::test]
async fn a_flipped_bit_of_a_group_is_refused_or_takes_the_last_group_only() {
    let directory = with_groups(4).await;
    let path = directory.path().join("journal-0");
    let whole = fs::read(&path).unwrap();
    let groups = groups_in(&whole);
    for (index, group) in groups.iter().enumerate() {
        for at in group.bytes.clone().step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let copy = crashed(directory.path());
            fs::write(copy.path().join("journal-0"), bytes).unwrap();
            let opened = open(copy.path());
            if index + 1 == groups.len() {
                let engine = opened.unwrap();
                assert_eq!(revision(&engine), group.first - 1, "byte {at}");
                engine.close().await;
                continue;
            }
            let refused = opened.err().unwrap().to_string();
            let (offset, before) = (group.bytes.start, group.first - 1);
            let damaged = match index {
                0 => "the first group".to_owned(),
                _ => format!("group {} after revision {before}", group.number),
            };
            let what = format!("journal-0, offset {offset}: {damaged} is damaged");
            assert!(refused.contains(&what), "byte {at}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_journal_that_is_missing_while_it_is_needed_is_refused() {
    for name in FILES {
        let directory = with_groups(2).await;
        fs::remove_file(directory.path().join(name)).unwrap();
        let refused = open(directory.path()).err().unwrap().to_string();
        let what = format!("{name} is missing, which holds the newest changes");
        assert!(refused.contains(&what), "{refused}");
        assert!(
            refused.contains("remove the files store and journal-0, journal-1"),
            "{refused}"
        );
        // Who does that has what the last checkpoint made durable.
        for rest in FILES.iter().chain(&["store"]) {
            let _ = fs::remove_file(directory.path().join(rest));
        }
        let engine = open(directory.path()).unwrap();
        assert_eq!(revision(&engine), 1);
        assert_eq!(put(&engine, "later", vec![b'v']).await, Revision(2));
        engine.close().await;
    }
}

/// The groups of another time are not those that redb lacks.
#[tokio::test]
async fn groups_of_an_earlier_epoch_are_not_replayed() {
    let directory = with_groups(3).await;
    let earlier = fs::read(directory.path().join("journal-0")).unwrap();
    let engine = open(directory.path()).unwrap();
    put(&engine, "later", vec![b'v']).await;
    let copy = crashed(directory.path());
    engine.close().await;
    fs::write(copy.path().join("journal-0"), earlier).unwrap();
    let engine = open(copy.path()).unwrap();
    assert_eq!(revision(&engine), 5);
    engine.close().await;
}

#[tokio::test]
async fn a_full_journal_and_a_value_larger_than_it_are_no_limit() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).unwrap();
    let mut last = Revision::ZERO;
    for number in 0..300 {
        let bytes = if number % 50 == 7 { 400_000 } else { 2_000 };
        last = put(&engine, &number.to_string(), vec![b'v'; bytes]).await;
    }
    // A grant waits until no checkpoint is under way.
    engine.grant(Duration::from_secs(10)).await.unwrap();
    let copy = crashed(directory.path());
    engine.close().await;
    let engine = open(copy.path()).unwrap();
    assert_eq!(revision(&engine), last.0);
    engine.close().await;
    for name in FILES {
        let length = fs::metadata(copy.path().join(name)).unwrap().len();
        assert!(length <= 256 * 1024, "{name} has {length} bytes");
    }
}

/// A rewrite under a new key ends with a purge, which leaves no file that old values could be in.
#[tokio::test]
async fn a_purge_leaves_nothing_in_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).unwrap();
    for number in 0..20 {
        put(&engine, &number.to_string(), b"the old ciphertext".to_vec()).await;
    }
    while engine.purge().await.unwrap().more {}
    for name in FILES {
        assert!(!directory.path().join(name).exists(), "{name}");
    }
    put(&engine, "later", vec![b'v']).await;
    engine.close().await;
}
