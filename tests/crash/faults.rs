//! I/O errors: the engine refuses, opens its database anew by itself, and has lost nothing.

use std::time::Duration;

use actors::engine::{DataEngine, EventKind, FeedItem, Health, Prefix, Revision};

use crate::disk::SimulatedDisk;
use crate::life::{Life, log, open, same_state, state};

/// Waits until the engine serves again; it does so by itself.
pub async fn serving(life: &Life) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while life.engine.health() != Health::Serving {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{:?}",
            life.engine.health()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Holds what the engine says against what it promised; what it shows is a promise from now on.
pub async fn compare(life: &mut Life) {
    let (revision, found) = state(&life.engine).await;
    let events = log(&life.engine).await;
    let mut promises = life.promises.lock();
    assert!(revision >= promises.newest());
    for (at, _) in promises.events.range(life.engine.compacted().next()..) {
        assert!(
            events.iter().any(|event| event.revision == *at),
            "{at} was promised"
        );
    }
    for event in &events {
        // Fails if a promised event is another one now.
        promises.add(event);
        let refused = life.rejected.contains(&event.value) && event.kind == EventKind::Put;
        assert!(
            !refused,
            "{} was said not to have taken place",
            event.revision
        );
    }
    assert_eq!(promises.newest(), revision);
    same_state(&found, &promises.state_at(revision), revision);
    life.seen = revision;
}

async fn suffer(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let mut life = Life::begin(disk.clone(), seed);
    life.seen = Revision::ZERO;
    let mut feed = life
        .engine
        .feed(Prefix::new("/registry/"), Revision::ZERO)
        .await
        .unwrap();
    for round in 0..12 {
        {
            let mut world = disk.world();
            world.faults.error_in = Some(life.dice.roll(120));
            world.faults.every = [0, 40, 200][round % 3];
            world.faults.burst = 1 + life.dice.roll(6);
        }
        for _ in 0..12 {
            life.step().await;
        }
        disk.world().faults = Default::default();
        serving(&life).await;
        // Commits whose outcome nobody learnt are in the log or not; the load reads it anew.
        let mut fed = Vec::new();
        let newest = life.engine.known(&Prefix::new("/registry/")).revision;
        let mut last = life.promises.lock().newest();
        while last < newest {
            let item = tokio::time::timeout(Duration::from_secs(10), feed.next()).await;
            match item.expect("the feed fell silent") {
                Ok(FeedItem::Events(events)) => {
                    last = events.last().map_or(last, |event| event.revision);
                    fed.extend(events.iter().cloned());
                }
                Ok(FeedItem::Progress(reached)) => last = last.max(reached),
                Err(_) => {
                    let after = fed
                        .last()
                        .map_or(last, |event: &actors::engine::Event| event.revision);
                    let after = after.max(life.engine.compacted());
                    feed = life
                        .engine
                        .feed(Prefix::new("/registry/"), after)
                        .await
                        .unwrap();
                    last = after;
                }
            }
        }
        for event in fed {
            life.promises.lock().add(&event);
        }
        compare(&mut life).await;
    }
    // What is left on the platter is what was promised.
    disk.cut_power();
    let image = disk.world().power_cut(seed);
    drop(life.engine);
    let disk = SimulatedDisk::from_image(&image, seed);
    life.engine = open(&disk).unwrap();
    compare(&mut life).await;
}

#[tokio::test]
async fn io_errors_lose_nothing_and_the_engine_comes_back_by_itself() {
    let seed = crate::seed();
    for life in 0..crate::images(2500) as u64 / 100 {
        let seed = seed.wrapping_add(life);
        if let Err(error) = tokio::spawn(suffer(seed)).await {
            panic!("seed {seed}: {error}");
        }
    }
}

#[tokio::test]
async fn while_the_disk_fails_writes_are_refused_and_say_that_nothing_was_done() {
    let disk = SimulatedDisk::new(1);
    let mut life = Life::begin(disk.clone(), 1);
    for _ in 0..10 {
        life.single().await.unwrap();
    }
    disk.world().faults.error_in = Some(0);
    disk.world().faults.burst = u64::MAX;
    let first = life.single().await.unwrap_err();
    let Health::Down(why) = life.engine.health() else {
        panic!("{first}")
    };
    assert!(why.contains("simulated/events.redb"), "{why}");
    let refused = life.single().await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    let read = life.engine.get(
        actors::engine::Key::new("/registry/x"),
        actors::engine::At::Latest,
    );
    assert!(read.await.unwrap_err().is_retryable());
    // Whoever holds the latest state in memory learns that it is the latest.
    let registry = Prefix::new("/registry/");
    let position = life.engine.current(&registry).await.unwrap();
    assert_eq!(position.revision, life.promises.lock().newest());
    assert_eq!(position, life.engine.known(&registry));
    disk.world().faults = Default::default();
    serving(&life).await;
    life.single().await.unwrap();
    compare(&mut life).await;
}
