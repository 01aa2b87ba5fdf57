//! A full disk: creates and updates are refused, deletes and compaction continue, and nothing needs
//! a restart.

use std::sync::Arc;

use actors::engine::{
    Change, DataEngine, EngineError, Expect, Health, Key, LeaseId, MaintenanceEngine, Mutation,
    Origin, Outcome, Prefix, Prepared, Revision,
};
use bytes::Bytes;
use taffrail::storage::embedded::EmbeddedEngine;
use taffrail::storage::embedded::disk::Disk;

use crate::disk::SimulatedDisk;
use crate::faults::{compare, serving};
use crate::workload::{Workload, options};

const MIB: u64 = 1 << 20;

fn put(number: u64, expect: Expect) -> Mutation {
    Mutation {
        key: Key::new(format!("/registry/configmaps/ns/{number:04}")),
        expect,
        change: Change::Put {
            value: Bytes::from(vec![b'x'; 20_000]),
            lease: LeaseId(0),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    }
}

fn delete(number: u64, revision: Revision) -> Mutation {
    Mutation {
        change: Change::Delete,
        ..put(number, Expect::Unchanged(revision))
    }
}

/// Fills a store until it refuses, and returns the revisions of its keys.
async fn fill(engine: &EmbeddedEngine) -> Vec<Revision> {
    let mut revisions = Vec::new();
    loop {
        match engine
            .commit(put(revisions.len() as u64, Expect::Absent))
            .await
        {
            Ok(Outcome::Committed(event)) => revisions.push(event.revision),
            Err(EngineError::OutOfSpace(why)) => {
                assert!(!why.is_empty());
                return revisions;
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn empty(engine: &EmbeddedEngine, revisions: &[Revision]) {
    for (number, revision) in revisions.iter().enumerate() {
        let gone = engine.commit(delete(number as u64, *revision)).await;
        assert!(matches!(gone, Ok(Outcome::Committed(_))), "{gone:?}");
    }
    let newest = engine.known(&Prefix::new("/registry/")).revision;
    engine.compact(newest).await.unwrap();
    while engine.maintain(false).await.unwrap().more {}
}

#[tokio::test]
async fn below_the_reserve_puts_are_refused_and_deletes_and_compaction_work() {
    let disk = SimulatedDisk::new(3);
    disk.world().faults.capacity = Some(24 * MIB);
    let mut settings = options();
    settings.reserve_bytes = 6 * MIB;
    settings.ballast_bytes = MIB;
    let engine = EmbeddedEngine::open_on(Arc::new(disk.clone()), settings).unwrap();
    let revisions = fill(&engine).await;
    assert!(revisions.len() > 100);
    assert!(
        matches!(engine.health(), Health::ReadOnly(_)),
        "{:?}",
        engine.health()
    );
    let refused = engine.commit(put(0, Expect::Unchanged(revisions[0]))).await;
    assert!(
        matches!(refused, Err(EngineError::OutOfSpace(_))),
        "updates too: {refused:?}"
    );
    empty(&engine, &revisions).await;
    // The file's free pages are no room of the disk's; that comes back when space is given back.
    while engine.maintain(true).await.unwrap().more {}
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let again = engine.commit(put(1, Expect::Absent)).await;
    assert!(matches!(again, Ok(Outcome::Committed(_))), "{again:?}");
    assert_eq!(engine.health(), Health::Serving);
}

#[tokio::test]
async fn a_disk_that_is_full_without_warning_costs_nothing_and_gives_up_its_ballast() {
    let disk = SimulatedDisk::new(4);
    {
        let mut world = disk.world();
        world.faults.capacity = Some(16 * MIB);
        world.faults.lies_about_room = true;
    }
    let mut settings = options();
    settings.ballast_bytes = 4 * MIB;
    let engine = EmbeddedEngine::open_on(Arc::new(disk.clone()), settings).unwrap();
    let revisions = fill(&engine).await;
    assert!(revisions.len() > 50);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while engine.health() != Health::Serving {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{:?}",
            engine.health()
        );
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(engine.stats().live_keys, revisions.len() as u64);
    empty(&engine, &revisions).await;
    assert_eq!(engine.stats().live_keys, 0);
    let again = engine.commit(put(1, Expect::Absent)).await;
    assert!(matches!(again, Ok(Outcome::Committed(_))), "{again:?}");
}

#[tokio::test]
async fn under_a_random_load_a_full_disk_loses_nothing() {
    for seed in 0..4 {
        let disk = SimulatedDisk::new(seed);
        let mut workload = Workload::begin(disk.clone(), seed);
        workload.seen = Revision::ZERO;
        for _ in 0..30 {
            workload.step().await;
        }
        {
            let mut world = disk.world();
            world.faults.lies_about_room = true;
            world.faults.capacity = Some(1);
        }
        for _ in 0..10 {
            workload.step().await;
        }
        disk.world().faults = Default::default();
        serving(&workload).await;
        compare(&mut workload).await;
        for _ in 0..10 {
            workload.step().await;
        }
        compare(&mut workload).await;
    }
}

/// The disk became full while the daemon was down.
#[tokio::test]
async fn a_store_opens_on_a_full_disk_at_the_price_of_its_ballast() {
    let disk = SimulatedDisk::new(5);
    disk.set_ballast(4 * MIB).unwrap();
    {
        let mut world = disk.world();
        world.faults.capacity = Some(4 * MIB);
        world.faults.lies_about_room = true;
    }
    let mut settings = options();
    settings.ballast_bytes = 4 * MIB;
    let engine = EmbeddedEngine::open_on(Arc::new(disk.clone()), settings).unwrap();
    let done = engine.commit(put(1, Expect::Absent)).await;
    assert!(matches!(done, Ok(Outcome::Committed(_))), "{done:?}");
}

/// Requests while the store is being opened again are told of the full disk, too (B16). Of a
/// commit that was under way nobody knows the outcome as long as the store can't be opened.
#[tokio::test]
async fn a_full_disk_is_told_to_everybody_until_there_is_room() {
    let disk = SimulatedDisk::new(6);
    {
        let mut world = disk.world();
        world.faults.capacity = Some(16 * MIB);
        world.faults.lies_about_room = true;
    }
    let engine = EmbeddedEngine::open_on(Arc::new(disk.clone()), options()).unwrap();
    let mut stored = 0;
    while let Ok(Outcome::Committed(_)) = engine.commit(put(stored, Expect::Absent)).await {
        stored += 1;
        assert!(stored < 10_000, "the disk is never full");
    }
    for round in 0..200 {
        let refused = engine.commit(put(stored + round, Expect::Absent)).await;
        let is_told = matches!(
            refused,
            Err(EngineError::OutOfSpace(_) | EngineError::OutcomeUnknown(_))
                | Ok(Outcome::Committed(_))
        );
        assert!(is_told, "{round}: {refused:?}");
    }
}
