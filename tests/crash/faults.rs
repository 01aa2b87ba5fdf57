//! I/O errors: the engine refuses writes, reopens its database by itself, and loses nothing.

use std::time::Duration;

use actors::engine::{DataEngine, EventKind, FeedItem, Health, Prefix, Revision};

use crate::disk::SimulatedDisk;
use crate::workload::{Workload, log, open, same_state, state};

/// Waits until the engine serves again, which it does by itself.
pub async fn serving(workload: &Workload) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while workload.engine.health() != Health::Serving {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{:?}",
            workload.engine.health()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Compares the engine's data with its promises. Data that it shows is a promise from now on.
pub async fn compare(workload: &mut Workload) {
    let overtaken = workload.disk.world().overtaken;
    assert_eq!(overtaken, 0, "an earlier opening has changed a file");
    let (revision, found) = state(&workload.engine).await;
    let events = log(&workload.engine).await;
    let mut promises = workload.promises.lock();
    assert!(revision >= promises.newest());
    for (at, _) in promises.events.range(workload.engine.compacted().next()..) {
        assert!(
            events.iter().any(|event| event.revision == *at),
            "{at} was promised"
        );
    }
    for event in &events {
        // Fails if a promised event is another one now.
        promises.add(event);
        let refused = workload.rejected.contains(&event.value) && event.kind == EventKind::Put;
        assert!(
            !refused,
            "{} was said not to have taken place",
            event.revision
        );
    }
    assert_eq!(promises.newest(), revision);
    same_state(&found, &promises.state_at(revision), revision);
    workload.seen = revision;
}

async fn suffer(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let mut workload = Workload::begin(disk.clone(), seed);
    workload.seen = Revision::ZERO;
    let mut feed = workload
        .engine
        .feed(Prefix::new("/registry/"), Revision::ZERO)
        .await
        .unwrap();
    for round in 0..12 {
        {
            let mut world = disk.world();
            world.faults.error_in = Some(workload.dice.roll(120));
            world.faults.every = [0, 40, 200][round % 3];
            world.faults.burst = 1 + workload.dice.roll(6);
        }
        for _ in 0..12 {
            workload.step().await;
        }
        disk.world().faults = Default::default();
        serving(&workload).await;
        // Commits with an unknown outcome may be in the log. The load reads it again.
        let mut fed = Vec::new();
        let newest = workload.engine.known(&Prefix::new("/registry/")).revision;
        let mut last = workload.promises.lock().newest();
        while last < newest {
            let item = tokio::time::timeout(Duration::from_secs(10), feed.next()).await;
            match item.expect("the feed fell silent") {
                Ok(FeedItem::Events(events)) => {
                    last = events.last().map_or(last, |event| event.revision);
                    fed.extend(events.iter().cloned());
                }
                Ok(reset @ FeedItem::Reset { .. }) => panic!("{reset:?}"),
                Ok(FeedItem::Progress(reached)) => last = last.max(reached),
                Err(_) => {
                    let after = fed
                        .last()
                        .map_or(last, |event: &actors::engine::Event| event.revision);
                    let after = after.max(workload.engine.compacted());
                    feed = workload
                        .engine
                        .feed(Prefix::new("/registry/"), after)
                        .await
                        .unwrap();
                    last = after;
                }
            }
        }
        for event in fed {
            workload.promises.lock().add(&event);
        }
        compare(&mut workload).await;
    }
    // The disk holds everything that was promised.
    disk.cut_power();
    let image = disk.world().power_cut(seed);
    drop(workload.engine);
    let disk = SimulatedDisk::from_image(&image, seed);
    workload.engine = open(&disk).unwrap();
    compare(&mut workload).await;
}

#[tokio::test]
async fn io_errors_lose_nothing_and_the_engine_comes_back_by_itself() {
    let seed = crate::seed();
    for workload in 0..crate::images(2500) as u64 / 100 {
        let seed = seed.wrapping_add(workload);
        if let Err(error) = tokio::spawn(suffer(seed)).await {
            panic!("seed {seed}: {error}");
        }
    }
}

#[tokio::test]
async fn while_the_disk_fails_writes_are_refused_and_say_that_nothing_was_done() {
    let disk = SimulatedDisk::new(1);
    let mut workload = Workload::begin(disk.clone(), 1);
    for _ in 0..10 {
        workload.single().await.unwrap();
    }
    disk.world().faults.error_in = Some(0);
    disk.world().faults.burst = u64::MAX;
    let first = workload.single().await.unwrap_err();
    let Health::Down(why) = workload.engine.health() else {
        panic!("{first}")
    };
    assert!(why.contains("simulated/events.redb"), "{why}");
    let refused = workload.single().await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    let read = workload.engine.get(
        actors::engine::Key::new("/registry/x"),
        actors::engine::At::Latest,
    );
    assert!(read.await.unwrap_err().is_retryable());
    // Whoever holds the latest state in memory learns that it is the latest.
    let registry = Prefix::new("/registry/");
    let position = workload.engine.current(&registry).await.unwrap();
    assert_eq!(position.revision, workload.promises.lock().newest());
    assert_eq!(position, workload.engine.known(&registry));
    disk.world().faults = Default::default();
    serving(&workload).await;
    workload.single().await.unwrap();
    compare(&mut workload).await;
}
