//! Failing reads of the file, and their effect on other requests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actors::engine::{At, DataEngine, Engine, EngineError, Expect, Health, Key};
use futures_util::future::join_all;
use taffrail::storage::embedded::EmbeddedEngine;

use crate::faulty::{Faults, FaultyDisk};
use crate::history_script::Clock;
use crate::restart::{committed, put, serving};

/// Every read reaches the file, and the writer's queue is soon full.
fn start(directory: &Path) -> (Arc<EmbeddedEngine>, Arc<Faults>) {
    let (disk, faults) = FaultyDisk::open(directory);
    let mut options = Clock::default().options(directory);
    options.cache_bytes = 0;
    options.queue_bytes_max = 0;
    (EmbeddedEngine::open_on(disk, options).unwrap(), faults)
}

fn key() -> Key {
    Key::new("/registry/pods/ns/a")
}

/// Every read of a page that redb cannot parse meets it again.
#[tokio::test]
async fn a_panic_under_a_read_is_damage_and_does_not_interrupt_writers() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, faults) = start(directory.path());
    let first = committed(&engine, put("a", Expect::Absent, "1")).await;
    faults.read_panics.store(true, Ordering::SeqCst);
    for round in 0..20 {
        let error = engine.get(key(), At::Latest).await.unwrap_err();
        assert!(matches!(error, EngineError::Corrupt(_)), "{error:?}");
        assert_eq!(engine.health(), Health::Serving);
        committed(&engine, put(&format!("b-{round}"), Expect::Absent, "1")).await;
    }
    faults.read_panics.store(false, Ordering::SeqCst);
    let item = engine.get(key(), At::Latest).await.unwrap().item;
    assert_eq!(item.map(|item| item.revision), Some(first));
    assert_eq!(faults.opened.load(Ordering::SeqCst), 1, "it was reopened");
    engine.close().await;
}

/// One alarm is enough for the writer. More would take the place of commits.
#[tokio::test]
async fn however_many_reads_fail_commits_find_room_in_the_queue() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, faults) = start(directory.path());
    committed(&engine, put("a", Expect::Absent, "1")).await;
    faults.hold.store(true, Ordering::SeqCst);
    let mut held = engine.commit(put("held", Expect::Absent, "1"));
    let begun = tokio::time::timeout(Duration::from_millis(50), &mut held).await;
    assert!(begun.is_err(), "{begun:?}");
    faults.reads.store(true, Ordering::SeqCst);
    let reads = (0..300).map(|_| engine.get(key(), At::Latest));
    for read in join_all(reads).await {
        assert!(read.unwrap_err().is_retryable());
    }
    let mut next = engine.commit(put("next", Expect::Absent, "1"));
    let queued = tokio::time::timeout(Duration::from_millis(50), &mut next).await;
    assert!(queued.is_err(), "{queued:?}");
    faults.reads.store(false, Ordering::SeqCst);
    faults.hold.store(false, Ordering::SeqCst);
    // The outcomes depend on when the writer notices. All requests are answered.
    let answers = join_all([held, next]).await;
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(error.is_retryable() || matches!(error, EngineError::OutcomeUnknown(_)));
    }
    serving(&engine).await;
    committed(&engine, put("last", Expect::Absent, "1")).await;
    engine.close().await;
}
