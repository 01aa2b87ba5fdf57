//! Leases across restarts, and under clocks that change.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, Change, DataEngine, Engine, EngineError, Expect, Health, Key, LeaseEngine, LeaseId,
    MaintenanceEngine, Outcome, Prefix, RangeRequest, Revision,
};
use futures_util::future::join_all;
use redb::{Database, ReadableDatabase};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::damage::{alter, alter_record};
use crate::golden::{META, unpack};
use crate::restart::put;

/// A wall clock and an uptime. A test moves them independently.
#[derive(Clone)]
struct Clocks {
    wall: Arc<AtomicU64>,
    up: Arc<AtomicU64>,
}

impl Clocks {
    fn new() -> Clocks {
        Clocks {
            wall: Arc::new(AtomicU64::new(1_700_000_000)),
            up: Arc::default(),
        }
    }

    /// Lets time pass.
    fn pass(&self, seconds: u64) {
        self.wall.fetch_add(seconds, Ordering::SeqCst);
        self.up.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets the wall clock, by seconds from now.
    fn set(&self, by: i64) {
        let now = self.wall.load(Ordering::SeqCst);
        self.wall
            .store(now.saturating_add_signed(by), Ordering::SeqCst);
    }

    fn options(&self, directory: &Path) -> EmbeddedOptions {
        let (wall, up) = (self.wall.clone(), self.up.clone());
        let seconds = |of: &AtomicU64| Duration::from_secs(of.load(Ordering::SeqCst));
        let mut options = EmbeddedOptions::new(directory);
        options.ballast_bytes = 0;
        options.reserve_bytes = 0;
        options.clock = Arc::new(move || SystemTime::UNIX_EPOCH + seconds(&wall));
        options.uptime = Arc::new(move || seconds(&up));
        options
    }

    fn open(&self, directory: &Path) -> Arc<EmbeddedEngine> {
        EmbeddedEngine::open(self.options(directory)).unwrap()
    }
}

async fn lease(engine: &EmbeddedEngine, seconds: u64) -> LeaseId {
    let lease = engine.grant(Duration::from_secs(seconds)).await.unwrap();
    lease.id
}

async fn attach(
    engine: &EmbeddedEngine,
    name: &str,
    lease: LeaseId,
) -> Result<Revision, EngineError> {
    let mut mutation = put(name, Expect::Absent, "leased");
    if let Change::Put { lease: of, .. } = &mut mutation.change {
        *of = lease;
    }
    match engine.commit(mutation).await? {
        Outcome::Committed(event) => Ok(event.revision),
        refused => panic!("{refused:?}"),
    }
}

async fn names(engine: &EmbeddedEngine) -> Vec<String> {
    let request = RangeRequest {
        prefix: Prefix::new("/registry/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let items = engine.range(request).await.unwrap().items;
    let name = |key: &Key| key.to_text().rsplit('/').next().unwrap().to_owned();
    items.iter().map(|item| name(&item.key)).collect()
}

async fn expire(engine: &EmbeddedEngine) -> u64 {
    let mut expired = 0;
    loop {
        let step = engine.expire().await.unwrap();
        expired += step.expired;
        if !step.more {
            return expired;
        }
    }
}

#[tokio::test]
async fn leases_are_as_they_were_after_a_restart_and_time_without_a_daemon_counts_op_2() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let (short, long) = (lease(&engine, 60).await, lease(&engine, 3600).await);
    attach(&engine, "short", short).await.unwrap();
    attach(&engine, "long", long).await.unwrap();
    engine.close().await;
    clocks.pass(59);
    let engine = clocks.open(directory.path());
    attach(&engine, "later", short).await.unwrap();
    let idle = engine.expire().await.unwrap();
    assert_eq!((idle.expired, idle.next), (0, Some(Duration::from_secs(1))));
    engine.close().await;
    clocks.pass(1);
    let engine = clocks.open(directory.path());
    let gone = attach(&engine, "too-late", short).await;
    assert_eq!(gone, Err(EngineError::LeaseNotFound(short)));
    assert_eq!(names(&engine).await, ["later", "long", "short"], "not yet");
    assert_eq!(expire(&engine).await, 2);
    assert_eq!(names(&engine).await, ["long"]);
    let next = lease(&engine, 60).await;
    assert!(next > long, "numbers go on");
    engine.revoke(long).await.unwrap();
    assert!(names(&engine).await.is_empty());
}

/// A lease that is renewed lives as long again from then on, and after a restart, too.
#[tokio::test]
async fn a_renewed_lease_lives_on_and_a_dead_one_is_not_revived() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let (kept, lost) = (lease(&engine, 60).await, lease(&engine, 60).await);
    attach(&engine, "kept", kept).await.unwrap();
    attach(&engine, "lost", lost).await.unwrap();
    clocks.pass(50);
    let renewed = engine.renew(kept).await.unwrap();
    assert_eq!((renewed.id, renewed.ttl), (kept, Duration::from_secs(60)));
    let held = engine.leases().await.unwrap();
    let remaining = held
        .iter()
        .map(|held| (held.lease.id, held.remaining.as_secs()));
    assert_eq!(remaining.collect::<Vec<_>>(), [(kept, 60), (lost, 10)]);
    clocks.pass(10);
    let gone = engine.renew(lost).await;
    assert_eq!(
        gone,
        Err(EngineError::LeaseNotFound(lost)),
        "its time is over"
    );
    assert_eq!(engine.leases().await.unwrap().len(), 1);
    let never = engine.renew(LeaseId(4711)).await;
    assert_eq!(never, Err(EngineError::LeaseNotFound(LeaseId(4711))));
    assert_eq!(expire(&engine).await, 1);
    engine.close().await;
    clocks.pass(49);
    let engine = clocks.open(directory.path());
    assert_eq!(
        (expire(&engine).await, names(&engine).await),
        (0, vec!["kept".to_owned()])
    );
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 1);
}

/// A store that begins at a revision is as one whose events up to there were compacted.
#[tokio::test]
async fn a_store_may_begin_at_a_revision_and_be_unsynced() {
    let directory = tempfile::tempdir().unwrap();
    let options = || EmbeddedOptions {
        begins_at: Revision(1),
        syncs: false,
        ..Clocks::new().options(directory.path())
    };
    let engine = EmbeddedEngine::open(options()).unwrap();
    let everything = Prefix::new("");
    let position = engine.current(&everything).await.unwrap();
    assert_eq!(
        (position.revision, engine.compacted()),
        (Revision(1), Revision(1))
    );
    let first = attach(&engine, "a", LeaseId(0)).await.unwrap();
    assert_eq!(first, Revision(2));
    engine.close().await;
    // A later start gives it no other one, synced or not.
    for syncs in [true, false] {
        let engine = EmbeddedEngine::open(EmbeddedOptions {
            begins_at: Revision(100),
            syncs,
            ..options()
        });
        let engine = engine.unwrap();
        assert_eq!(names(&engine).await, ["a"]);
        let position = engine.current(&everything).await.unwrap();
        assert_eq!(position.revision, Revision(2));
        let purged = engine.purge().await;
        assert!(purged.is_ok(), "{purged:?}");
        engine.close().await;
    }
}

#[tokio::test]
async fn a_clock_set_back_over_a_restart_revives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let due = lease(&engine, 60).await;
    for count in 0..300 {
        attach(&engine, &format!("due-{count}"), due).await.unwrap();
    }
    let alive = lease(&engine, 120).await;
    attach(&engine, "alive", alive).await.unwrap();
    clocks.pass(60);
    let step = engine.expire().await.unwrap();
    assert!(step.more && step.expired <= 128, "{step:?}");
    engine.close().await;
    clocks.set(-7200);
    let engine = clocks.open(directory.path());
    let gone = attach(&engine, "too-late", due).await;
    assert_eq!(gone, Err(EngineError::LeaseNotFound(due)));
    assert_eq!(expire(&engine).await, 300 - step.expired);
    assert_eq!(names(&engine).await, ["alive"]);
    // The other lease continues.
    clocks.pass(59);
    assert_eq!(expire(&engine).await, 0);
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 1);
}

#[tokio::test]
async fn a_clock_that_is_set_while_the_daemon_runs_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let first = lease(&engine, 60).await;
    attach(&engine, "first", first).await.unwrap();
    clocks.set(86_400);
    assert_eq!(expire(&engine).await, 0);
    let second = lease(&engine, 60).await;
    attach(&engine, "second", second).await.unwrap();
    clocks.set(-2 * 86_400);
    clocks.pass(59);
    let idle = engine.expire().await.unwrap();
    assert_eq!((idle.expired, idle.next), (0, Some(Duration::from_secs(1))));
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 2);
    assert_eq!(engine.health(), Health::Serving);
}

#[tokio::test]
async fn what_is_granted_after_a_clock_was_set_forward_is_not_over_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    // The machine slept, or its clock was wrong for a while.
    clocks.set(86_400);
    let fresh = lease(&engine, 60).await;
    attach(&engine, "fresh", fresh).await.unwrap();
    clocks.pass(20);
    engine.close().await;
    drop(engine);
    let engine = clocks.open(directory.path());
    assert_eq!(expire(&engine).await, 0);
    attach(&engine, "more", fresh).await.unwrap();
    clocks.pass(39);
    assert_eq!(expire(&engine).await, 0);
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 2);
    // A clock that was wrong for a while extends no lease, not even one that is read again from a
    // defragmented log.
    clocks.set(86_400);
    let other = lease(&engine, 60).await;
    attach(&engine, "other", other).await.unwrap();
    while engine.purge().await.unwrap().more {}
    clocks.pass(59);
    assert_eq!(expire(&engine).await, 0);
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 1);
    let other = lease(&engine, 60).await;
    attach(&engine, "other", other).await.unwrap();
    engine.close().await;
    drop(engine);
    clocks.set(-86_400);
    let engine = clocks.open(directory.path());
    clocks.pass(59);
    assert_eq!(expire(&engine).await, 0);
    clocks.pass(1);
    assert_eq!(expire(&engine).await, 1);
}

#[tokio::test]
async fn what_was_granted_by_a_clock_that_was_ahead_is_not_revived_at_each_start() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    clocks.set(86_400);
    assert_eq!(expire(&engine).await, 0);
    let granted = lease(&engine, 60).await;
    attach(&engine, "granted", granted).await.unwrap();
    clocks.set(-86_400);
    assert_eq!(expire(&engine).await, 0);
    // The lease ended before its key could be deleted, and the store restarts afterwards.
    engine.close().await;
    drop(engine);
    clocks.pass(60);
    let engine = clocks.open(directory.path());
    let refused = attach(&engine, "more", granted).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(expire(&engine).await, 1);
}

/// An older version refuses a store whose journal it does not know.
#[tokio::test]
async fn a_store_of_an_older_format_is_one_of_format_4_from_its_first_commit_on() {
    for (name, old) in [("store-format-1", 1), ("store-format-2", 2)] {
        let directory = unpack(name);
        let clocks = Clocks::new();
        let format = || {
            let database = Database::open(directory.path().join("events.redb")).unwrap();
            let meta = database.begin_read().unwrap().open_table(META).unwrap();
            meta.get("format").unwrap().unwrap().value().to_vec()
        };
        let engine = clocks.open(directory.path());
        engine.close().await;
        drop(engine);
        // Opening changes nothing. Closing a store with leases stores their time.
        let closed = if old == 1 { 1 } else { 4 };
        assert_eq!(format(), [closed, 0, 0, 0]);
        let engine = clocks.open(directory.path());
        let first = lease(&engine, 60).await;
        attach(&engine, "leased", first).await.unwrap();
        while engine.purge().await.unwrap().more {}
        engine.close().await;
        drop(engine);
        assert_eq!(format(), [4, 0, 0, 0]);
        let engine = clocks.open(directory.path());
        engine.revoke(first).await.unwrap();
        assert!(!names(&engine).await.contains(&"leased".to_owned()));
    }
}

#[tokio::test]
async fn without_room_keys_expire_all_the_same_and_no_lease_is_granted() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let first = lease(&engine, 60).await;
    attach(&engine, "a", first).await.unwrap();
    engine.close().await;
    clocks.pass(60);
    let mut options = clocks.options(directory.path());
    options.reserve_bytes = u64::MAX;
    let engine = EmbeddedEngine::open(options).unwrap();
    let refused = engine.grant(Duration::from_secs(60)).await;
    assert!(
        matches!(refused, Err(EngineError::OutOfSpace(_))),
        "{refused:?}"
    );
    assert_eq!(expire(&engine).await, 1);
    assert!(names(&engine).await.is_empty());
}

#[tokio::test]
async fn one_damaged_record_keeps_no_other_key_alive() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let first = lease(&engine, 60).await;
    let damaged = attach(&engine, "damaged", first).await.unwrap();
    attach(&engine, "whole", first).await.unwrap();
    // Opening reads the newest records.
    for count in 0..300 {
        let name = format!("other-{count}");
        engine.commit(put(&name, Expect::Absent, "")).await.unwrap();
    }
    engine.close().await;
    drop(engine);
    alter(directory.path(), |transaction| {
        alter_record(transaction, damaged.0, |bytes| bytes[9] ^= 1);
    });
    clocks.pass(60);
    let engine = clocks.open(directory.path());
    assert_eq!(expire(&engine).await, 1);
    assert_eq!(engine.expire().await.unwrap().next, None);
    assert_eq!(engine.stats().live_keys, 301);
}

/// Overwrites the page of the file that holds a record with this key and this value, and that
/// opening does not read.
fn wipe_record(clocks: &Clocks, directory: &Path, key: &[u8], value: &[u8]) {
    const PAGE: usize = 4096;
    let path = directory.join("events.redb");
    let holds = |page: &[u8]| {
        let at = page.windows(key.len()).position(|text| text == key);
        let record = at.map(|at| &page[at..PAGE.min(at + key.len() + 100)]);
        record.is_some_and(|record| record.windows(value.len()).any(|text| text == value))
    };
    let whole = std::fs::read(&path).unwrap();
    let mut wiped = whole.clone();
    for (number, page) in whole.chunks_exact(PAGE).enumerate() {
        if !holds(page) {
            continue;
        }
        let before = wiped.clone();
        // Except for its first byte, which is the page's type. Opening reads that.
        wiped[number * PAGE + 1..(number + 1) * PAGE].fill(0xee);
        std::fs::write(&path, &wiped).unwrap();
        // Unused pages may hold it too.
        if EmbeddedEngine::open(clocks.options(directory)).is_err() {
            wiped = before;
        }
    }
    assert!(wiped != whole);
    std::fs::write(&path, wiped).unwrap();
}

#[tokio::test]
async fn a_lease_that_can_not_be_ended_keeps_no_other_from_ending() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let (first, second) = (lease(&engine, 60).await, lease(&engine, 61).await);
    attach(&engine, "damaged-beyond-all-reading", first)
        .await
        .unwrap();
    // Opening reads the newest records.
    for count in 0..1000 {
        let name = format!("other-{count}");
        engine.commit(put(&name, Expect::Absent, "")).await.unwrap();
    }
    attach(&engine, "whole", second).await.unwrap();
    engine.close().await;
    drop(engine);
    wipe_record(
        &clocks,
        directory.path(),
        b"damaged-beyond-all-reading",
        b"leased",
    );
    clocks.pass(70);
    let engine = clocks.open(directory.path());
    let mut expired = 0;
    for _ in 0..5 {
        expired += engine.expire().await.map_or(0, |step| step.expired);
        crate::restart::serving(&engine).await;
    }
    assert_eq!(expired, 1);
    let gone = attach(&engine, "late", first).await;
    assert_eq!(gone, Err(EngineError::LeaseNotFound(first)));
}

#[tokio::test]
async fn space_given_back_takes_no_lease_and_revives_none() {
    let directory = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let engine = clocks.open(directory.path());
    let unused = lease(&engine, 7200).await;
    let (long, short) = (lease(&engine, 3600).await, lease(&engine, 60).await);
    for count in 0..100 {
        attach(&engine, &format!("long-{count:02}"), long)
            .await
            .unwrap();
        attach(&engine, &format!("short-{count:02}"), short)
            .await
            .unwrap();
    }
    for batch in 0..40 {
        let others = (0..50).map(|count| {
            let name = format!("other-{batch}-{count}");
            engine.commit(put(&name, Expect::Absent, "whatever"))
        });
        for outcome in join_all(others).await {
            assert!(matches!(outcome, Ok(Outcome::Committed(_))));
        }
    }
    let mut last = Expect::Absent;
    let value = "v".repeat(32 * 1024);
    for _ in 0..300 {
        let outcome = engine.commit(put("much", last, &value)).await.unwrap();
        let Outcome::Committed(event) = outcome else {
            panic!("{outcome:?}")
        };
        last = Expect::Unchanged(event.revision);
    }
    let newest = engine.known(&Prefix::new("")).revision;
    engine.compact(newest).await.unwrap();
    while engine.maintain(false).await.unwrap().more {}
    let (mut reclaimed, mut steps) = (0, 0);
    loop {
        let step = engine.maintain(true).await.unwrap();
        reclaimed += step.reclaimed_bytes;
        if !step.more {
            break;
        }
        // Some leases end while the log is copied.
        steps += 1;
        clocks.pass(60);
        engine.expire().await.unwrap();
    }
    assert!(reclaimed > 1 << 20 && steps > 0, "{reclaimed} {steps}");
    expire(&engine).await;
    assert_eq!(names(&engine).await.len(), 2101);
    attach(&engine, "unused", unused).await.unwrap();
    engine.close().await;
    drop(engine);
    let engine = clocks.open(directory.path());
    attach(&engine, "more", unused).await.unwrap();
    for ended in [unused, long] {
        engine.revoke(ended).await.unwrap();
        let again = engine.revoke(ended).await;
        assert_eq!(again, Err(EngineError::LeaseNotFound(ended)));
    }
    assert_eq!(names(&engine).await.len(), 2001);
    assert!(lease(&engine, 60).await > short);
}
