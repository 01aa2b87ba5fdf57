//! Opening again: after failures in the process, on the real file, and from one start to the next.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actors::engine::{
    At, Change, DataEngine, Engine, EngineError, Expect, Feed, FeedItem, Health, Key, LeaseId,
    MaintenanceEngine, Mutation, Origin, Outcome, Prefix, Prepared, Revision,
};
use bytes::Bytes;
use futures_util::future::join_all;
use taffrail::storage::embedded::EmbeddedEngine;

use crate::faulty::{Faults, FaultyDisk};
use crate::golden::ask_everything;
use crate::history_script::{self, Clock, Dice, expected_history, run_script_from};

/// How long anything may take before a test fails.
const TIMEOUT: Duration = Duration::from_secs(20);

pub fn put(name: &str, expect: Expect, value: &str) -> Mutation {
    Mutation {
        key: Key::new(format!("/registry/pods/ns/{name}")),
        expect,
        change: Change::Put {
            value: Bytes::copy_from_slice(value.as_bytes()),
            lease: LeaseId(0),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    }
}

fn start(directory: &Path) -> (Arc<EmbeddedEngine>, Arc<Faults>) {
    let (disk, faults) = FaultyDisk::open(directory);
    let mut options = Clock::default().options(directory);
    options.verdict_wait = Duration::from_millis(200);
    options.reopen_pause_max = Duration::from_millis(20);
    (EmbeddedEngine::open_on(disk, options).unwrap(), faults)
}

pub async fn committed(engine: &EmbeddedEngine, mutation: Mutation) -> Revision {
    let outcome = tokio::time::timeout(TIMEOUT, engine.commit(mutation)).await;
    match outcome.expect("it hangs").unwrap() {
        Outcome::Committed(event) => event.revision,
        refused => panic!("{refused:?}"),
    }
}

pub async fn serving(engine: &EmbeddedEngine) {
    let wait = async {
        while engine.health() != Health::Serving {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let came = tokio::time::timeout(TIMEOUT, wait).await;
    came.unwrap_or_else(|_| panic!("{:?}", engine.health()));
}

async fn next_revision(feed: &mut dyn Feed) -> Vec<Revision> {
    loop {
        let item = tokio::time::timeout(TIMEOUT, feed.next()).await;
        if let FeedItem::Events(events) = item.expect("the feed fell silent").unwrap() {
            return events.iter().map(|event| event.revision).collect();
        }
    }
}

#[tokio::test]
async fn after_an_io_error_the_file_is_opened_again_in_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, faults) = start(directory.path());
    let prefix = Prefix::new("/registry/");
    let mut feed = engine.feed(prefix, Revision::ZERO).await.unwrap();
    let first = committed(&engine, put("a", Expect::Absent, "1")).await;
    assert_eq!(next_revision(&mut *feed).await, [first]);
    for round in 1..4 {
        faults.writes.store(true, Ordering::SeqCst);
        let lost = put("a", Expect::Unchanged(first), "lost");
        let error = engine.commit(lost).await.unwrap_err();
        // Whether the file holds it is unknown until the file can be opened.
        assert!(matches!(error, EngineError::OutcomeUnknown(_)), "{error:?}");
        let Health::Down(why) = engine.health() else {
            panic!("it serves")
        };
        assert!(why.contains("/events.redb"), "{why}");
        let refused = engine.commit(put("b", Expect::Absent, "1")).await;
        assert!(refused.unwrap_err().is_retryable());
        let read = engine.get(Key::new("/registry/pods/ns/a"), At::Latest);
        assert!(read.await.unwrap_err().is_retryable());
        faults.writes.store(false, Ordering::SeqCst);
        serving(&engine).await;
        let key = Key::new("/registry/pods/ns/a");
        let item = engine.get(key, At::Latest).await.unwrap().item.unwrap();
        assert_eq!((item.revision, &item.value[..]), (first, &b"1"[..]));
        let next = committed(&engine, put(&format!("new-{round}"), Expect::Absent, "1")).await;
        assert_eq!(next, Revision(first.0 + round), "no revision is left out");
        assert_eq!(next_revision(&mut *feed).await, [next]);
    }
    engine.close().await;
    drop(engine);
    let (engine, _) = start(directory.path());
    assert_eq!(engine.stats().live_keys, 4);
}

/// The writer's thread panics while many requests wait. All are answered, and the log agrees with
/// the answers.
#[tokio::test]
async fn a_panic_of_the_writer_leaves_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, faults) = start(directory.path());
    let mut feed = engine
        .feed(Prefix::new("/registry/"), Revision::ZERO)
        .await
        .unwrap();
    let mut expected = 0;
    for round in 0..6 {
        let in_the_commit = round % 2 == 0;
        match in_the_commit {
            true => faults.panic.store(true, Ordering::SeqCst),
            false => faults.panic_about_room.store(true, Ordering::SeqCst),
        }
        // The free space is asked for every few milliseconds only.
        tokio::time::sleep(Duration::from_millis(15)).await;
        let names: Vec<String> = (0..50).map(|number| format!("{round}-{number}")).collect();
        let commits = names
            .iter()
            .map(|name| engine.commit(put(name, Expect::Absent, "1")));
        let others = [engine.compact(Revision(expected))];
        let answers = tokio::time::timeout(TIMEOUT, async {
            futures_util::join!(join_all(commits), join_all(others))
        });
        let (answers, _) = answers.await.expect("somebody waits for ever");
        serving(&engine).await;
        let mut failed = 0;
        for (name, answer) in names.iter().zip(answers) {
            let key = Key::new(format!("/registry/pods/ns/{name}"));
            let item = engine.get(key, At::Latest).await.unwrap().item;
            match answer {
                Ok(Outcome::Committed(event)) => {
                    assert_eq!(item.map(|item| item.revision), Some(event.revision));
                    expected += 1;
                }
                Err(EngineError::OutcomeUnknown(_)) => expected += u64::from(item.is_some()),
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    assert_eq!(item, None, "it was said that nothing was done");
                    failed += 1;
                }
                Ok(refused) => panic!("{refused:?}"),
            }
        }
        println!(
            "round {round}: {failed} of {} were told to try again",
            names.len()
        );
        let next = committed(&engine, put(&format!("next-{round}"), Expect::Absent, "1")).await;
        expected += 1;
        assert_eq!(next, Revision(expected));
    }
    let mut fed = 0;
    while fed < expected {
        for revision in next_revision(&mut *feed).await {
            fed += 1;
            assert_eq!(revision, Revision(fed));
        }
    }
    engine.close().await;
}

/// A panic while no request waits.
#[tokio::test]
async fn a_panic_of_the_idle_writer_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, faults) = start(directory.path());
    let first = committed(&engine, put("a", Expect::Absent, "1")).await;
    faults.panic_about_room.store(true, Ordering::SeqCst);
    let idle = async {
        while faults.panic_about_room.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, idle)
        .await
        .expect("it is never idle");
    let wait = async {
        loop {
            match engine.commit(put("b", Expect::Absent, "1")).await {
                Ok(outcome) => return outcome,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::time::timeout(TIMEOUT, wait)
        .await
        .expect("it never comes back");
    assert!(matches!(outcome, Outcome::Committed(event) if event.revision == first.next()));
    engine.close().await;
}

/// The log and its chains of previous values are the same after each restart, whatever was
/// compacted and removed.
#[tokio::test]
async fn chains_of_earlier_values_hold_from_start_to_start() {
    let seed = crate::seed();
    let mut dice = Dice::new(seed);
    let directory = tempfile::tempdir().unwrap();
    let (mut steps, mut told_before) = (Vec::new(), 0);
    for start in 0..12 {
        let clock = Clock::default();
        let engine = EmbeddedEngine::open(clock.options(directory.path())).unwrap();
        let history = expected_history(&steps);
        let answer = ask_everything(&*engine, &history).await;
        assert_eq!(answer, Ok(()), "seed {seed}, start {start}");
        assert_eq!(engine.compacted(), history.compacted);
        for _ in 0..12 {
            let step = history_script::any(&mut dice, &expected_history(&steps));
            steps.push(step);
        }
        run_script_from(&*engine, &clock, &steps, told_before).await;
        told_before = steps.len();
        if dice.roll(2) == 0 {
            engine.close().await;
        }
        drop(engine);
    }
}
