//! The journal: data that a crash leaves in it is recovered. Damage to it is refused, and so is a
//! journal that belongs to another state of the store.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    At, DataEngine, Engine, Expect, Key, LeaseEngine, LeaseId, MaintenanceEngine, Mutation, Prefix,
    Prepared, RangeRequest, Revision,
};
use actors::engine::{Change, Origin, Outcome};
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
    assert_eq!(journal[..4], *b"tfjh");
    let mut at = BLOCK;
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
/// end of what was written. The last one was acknowledged, which the database remembers.
#[tokio::test]
async fn a_flipped_bit_of_a_group_is_refused() {
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
            let refused = open(copy.path()).err().unwrap().to_string();
            let (offset, before) = (group.bytes.start, group.first - 1);
            let range = format!("lacks the revisions from {} to 5", group.first);
            assert!(refused.contains(&range), "byte {at}: {refused}");
            if index + 1 == groups.len() {
                let what =
                    "its journal ends at revision 4, and revisions up to 5 were acknowledged";
                assert!(refused.contains(what), "byte {at}: {refused}");
                continue;
            }
            let damaged = match index {
                0 => "the first group".to_owned(),
                _ => format!("group {} after revision {before}", group.number),
            };
            let what = format!("journal-0, offset {offset}: {damaged} is damaged");
            assert!(refused.contains(&what), "byte {at}: {refused}");
        }
    }
}

/// What may be in the place of a journal whose groups a store needs: the files, as they are there.
type Wrong = fn(&Places);

/// A store that died with ten objects, of which the journal has nine, and what else there is.
struct Places {
    dead: tempfile::TempDir,
    /// The same store when it had six objects, in the same epoch.
    older: tempfile::TempDir,
    /// The same store when it was opened before, in another epoch.
    earlier: tempfile::TempDir,
    /// A store of the same age.
    other: tempfile::TempDir,
}

impl Places {
    async fn new() -> Places {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path()).unwrap();
        put(&engine, "first", vec![b'v']).await;
        put(&engine, "second", vec![b'v']).await;
        let earlier = crashed(directory.path());
        engine.close().await;
        let engine = open(directory.path()).unwrap();
        for number in 3..=6 {
            put(&engine, &number.to_string(), vec![b'v'; 100]).await;
        }
        let older = crashed(directory.path());
        for number in 7..=10 {
            put(&engine, &number.to_string(), vec![b'v'; 100]).await;
        }
        let dead = crashed(directory.path());
        engine.close().await;
        let other = with_groups(9).await;
        Places {
            dead,
            older,
            earlier,
            other,
        }
    }

    fn each(&self, change: impl Fn(&Path)) {
        FILES
            .iter()
            .for_each(|name| change(&self.dead.path().join(name)));
    }

    fn take(&self, from: &tempfile::TempDir) {
        for name in FILES {
            fs::copy(from.path().join(name), self.dead.path().join(name)).unwrap();
        }
    }
}

/// Each state of the journal's files that is not that of the crash, the words of its refusal, and
/// the revision up to which objects are left.
const WRONG: [(&str, Wrong, &str, u64); 8] = [
    (
        "absent",
        |places| places.each(|path| fs::remove_file(path).unwrap()),
        "journal-0 is missing",
        3,
    ),
    (
        "emptied",
        |places| places.each(|path| fs::write(path, b"").unwrap()),
        "journal-0 is empty",
        3,
    ),
    (
        "zeroed",
        |places| places.each(|path| fs::write(path, vec![0; 1 << 20]).unwrap()),
        "journal-0 is empty",
        3,
    ),
    (
        "overwritten",
        |places| places.each(|path| fs::write(path, vec![b'x'; 1 << 20]).unwrap()),
        "journal-0 is damaged",
        3,
    ),
    (
        "an older copy",
        |places| places.take(&places.older),
        "its journal ends at revision 6, and revisions up to 10 were acknowledged",
        6,
    ),
    (
        "of an earlier opening",
        |places| places.take(&places.earlier),
        "journal-0 holds changes of another time",
        3,
    ),
    (
        "of another store",
        |places| places.take(&places.other),
        "journal-0 is of store ",
        3,
    ),
    (
        "an older database",
        |places| {
            let from = places.earlier.path().join("events.redb");
            fs::copy(from, places.dead.path().join("events.redb")).unwrap();
        },
        "journal-0 holds changes of another time",
        1,
    ),
];

#[tokio::test]
async fn a_journal_that_is_not_the_one_that_is_needed_is_refused_and_its_loss_accepted_by_number() {
    for (name, wrong, words, left) in WRONG {
        let places = Places::new().await;
        wrong(&places);
        let path = places.dead.path();
        let older_database = name == "an older database";
        for _ in 0..2 {
            let refused = open(path).err().unwrap().to_string();
            let flag = format!("--accept-loss={}", left + 1);
            for word in [
                words,
                &flag,
                "events.redb",
                "restore the directory from a backup",
            ] {
                assert!(
                    refused.contains(word),
                    "{name}: {word} is not in: {refused}"
                );
            }
            // An older database does not know what came later.
            let range = format!("from {} to 10", left + 1);
            assert!(
                older_database || refused.contains(&range),
                "{name}: {refused}"
            );
        }
        let accepting = |from: u64| EmbeddedOptions {
            accept_loss: Some(Revision(from)),
            ..options(path)
        };
        for other in [left, left + 2] {
            let refused = EmbeddedEngine::open(accepting(other)).err();
            assert!(refused.is_some(), "{name}: {other} is accepted");
        }
        let engine = EmbeddedEngine::open(accepting(left + 1)).unwrap();
        let begun = revision(&engine);
        assert!(begun > 10, "{name}: it goes on at {begun}");
        assert_eq!(engine.compacted(), Revision(begun), "{name}");
        let request = RangeRequest {
            prefix: Prefix::new(b"/registry/"),
            start: None,
            at: At::Latest,
            limit: 0,
            count_only: false,
        };
        let items = engine.range(request).await.unwrap().items;
        assert_eq!(items.len() as u64, left, "{name}");
        assert_eq!(put(&engine, "later", vec![b'v']).await, Revision(begun + 1));
        engine.close().await;
        // Nothing is missing any more, with the flag and without it.
        for options in [accepting(left + 1), options(path)] {
            let engine = EmbeddedEngine::open(options).unwrap();
            assert_eq!(revision(&engine), begun + 1, "{name}");
            engine.close().await;
        }
    }
}

/// The file that the groups of the next epoch are in is needed as soon as it has begun.
#[tokio::test]
async fn each_file_of_a_journal_that_goes_on_in_the_other_one_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).unwrap();
    put(&engine, "first", vec![b'v']).await;
    let before = crashed(directory.path());
    let mut count = 1;
    let switched = loop {
        put(&engine, &count.to_string(), vec![b'v'; 20_000]).await;
        count += 1;
        let copy = crashed(directory.path());
        let journal = fs::read(copy.path().join("journal-1")).unwrap();
        if journal.starts_with(b"tfjh") && journal.get(BLOCK..BLOCK + 4) == Some(b"tfjg") {
            // The database as it was before the checkpoint, which may be done.
            fs::copy(
                before.path().join("events.redb"),
                copy.path().join("events.redb"),
            )
            .unwrap();
            break copy;
        }
    };
    engine.close().await;
    for name in FILES {
        let whole = fs::read(switched.path().join(name)).unwrap();
        for wrong in [None, Some(Vec::new()), Some(vec![0; whole.len()])] {
            let path = switched.path().join(name);
            match &wrong {
                None => fs::remove_file(&path).unwrap(),
                Some(bytes) => fs::write(&path, bytes).unwrap(),
            }
            let refused = open(switched.path()).err().unwrap().to_string();
            assert!(refused.contains(&format!("{name} is ")), "{refused}");
            assert!(refused.contains("--accept-loss="), "{refused}");
            fs::write(&path, &whole).unwrap();
        }
    }
    let engine = open(switched.path()).unwrap();
    assert_eq!(revision(&engine), count);
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
