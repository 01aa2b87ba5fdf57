//! Power failures at any moment.

use std::sync::Arc;

use actors::engine::{
    Change, DataEngine, Engine, Expect, Key, LeaseId, MaintenanceEngine, Mutation, Origin, Outcome,
    Prefix, Revision,
};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::disk::{Dice, Image, SimulatedDisk};
use crate::faults::serving;
use crate::leases::{self, Clock, Leases};
use crate::workload::{Promises, Workload, log, open, open_at, same_state, state};

/// Images taken during one workload.
const IMAGES_PER_WORKLOAD: usize = 150;

/// The disk at some moment, and the promises up to then.
struct Moment {
    image: Image,
    promised: Promises,
    /// The newest revision that anybody could have been shown.
    visible: Revision,
    fate: u64,
    /// The time, and the leases that were granted by then.
    now: u64,
    leases: Leases,
}

/// Takes images at random moments while the disk is in use.
fn photograph(workload: &Workload, seed: u64, one_in: u64) -> Arc<Mutex<Vec<Moment>>> {
    let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let (album, promises) = (Arc::clone(&moments), Arc::clone(&workload.promises));
    let (clock, leases) = (workload.clock.clone(), Arc::clone(&workload.leases));
    let mut dice = Dice::new(seed);
    let engine = Arc::downgrade(&workload.engine);
    workload.disk.observe(Box::new(move |world| {
        let mut album = album.lock();
        if dice.roll(one_in) > 0 || album.len() >= IMAGES_PER_WORKLOAD {
            return;
        }
        let Some(engine) = engine.upgrade() else {
            return;
        };
        let fate = dice.next();
        album.push(Moment {
            image: world.power_cut(fate),
            promised: promises.lock().clone(),
            visible: engine.known(&Prefix::new("/registry/")).revision,
            fate,
            now: clock.now(),
            leases: leases.lock().clone(),
        });
    }));
    moments
}

/// Opens an image and compares it with the promises and with all writes. Returns images of a power
/// failure during this recovery.
async fn examine(moment: &Moment, written: &Promises) -> Vec<Moment> {
    let disk = SimulatedDisk::from_image(&moment.image, moment.fate);
    let mut dice = Dice::new(moment.fate);
    let again: Arc<Mutex<Vec<Moment>>> = Arc::default();
    if dice.roll(6) == 0 {
        let album = Arc::clone(&again);
        let (promised, visible) = (moment.promised.clone(), moment.visible);
        let (now, leases) = (moment.now, moment.leases.clone());
        let mut dice = dice.clone();
        disk.observe(Box::new(move |world| {
            if dice.roll(12) == 0 && album.lock().len() < 3 {
                let fate = dice.next();
                album.lock().push(Moment {
                    image: world.power_cut(fate),
                    promised: promised.clone(),
                    visible,
                    fate,
                    now,
                    leases: leases.clone(),
                });
            }
        }));
    }
    let clock = Clock::at(moment.now);
    // The clock of a machine that lost its power may be wrong.
    let behind = [0, 0, 3600][dice.roll(3) as usize];
    let engine = match open_at(&disk, &clock, behind) {
        Ok(engine) => engine,
        Err(error) => panic!("the store does not open: {error}"),
    };
    disk.stop_observing();
    let (revision, found) = state(&engine).await;
    let shown = moment.visible.max(moment.promised.newest());
    assert!(
        revision >= shown,
        "revision {shown} was visible, the store is back at {revision}"
    );
    assert!(
        revision <= written.newest(),
        "revision {revision} comes from nowhere"
    );
    assert!(
        engine.compacted() >= moment.promised.compacted,
        "the horizon has gone back"
    );
    same_state(&found, &written.state_at(revision), revision);
    compare_log(&engine, written, revision).await;
    // Removals go on where they were and change nothing.
    while engine.maintain(false).await.unwrap().more {}
    same_state(&state(&engine).await.1, &found, revision);
    compare_log(&engine, written, revision).await;
    // A copy is compared with the totals. They belong to the rows.
    engine.purge().await.expect("the totals fit the rows");
    compare_log(&engine, written, revision).await;
    let next = engine.commit(newcomer()).await.unwrap();
    let Outcome::Committed(event) = next else {
        panic!("{next:?}")
    };
    assert_eq!(
        event.revision,
        revision.next(),
        "revisions go on without a hole"
    );
    leases::examine(&engine, &clock, &moment.leases, behind).await;
    std::mem::take(&mut *again.lock())
}

async fn compare_log(
    engine: &taffrail::storage::embedded::EmbeddedEngine,
    written: &Promises,
    revision: Revision,
) {
    let events = log(engine).await;
    let retained = |at: Revision| at > engine.compacted() && at <= revision;
    let expected = written
        .events
        .values()
        .filter(|event| retained(event.revision));
    assert_eq!(
        events.len(),
        expected.clone().count(),
        "events after {}",
        engine.compacted()
    );
    for (event, expected) in events.iter().zip(expected) {
        assert_eq!(event.revision, expected.revision);
        assert_eq!((&event.key, &event.value), (&expected.key, &expected.value));
        assert_eq!(
            (event.kind, event.prev_revision),
            (expected.kind, expected.prev_revision)
        );
        assert_eq!(
            (event.version, event.time),
            (expected.version, expected.time)
        );
        let before = written
            .events
            .get(&event.prev_revision)
            .map(|event| &event.value);
        assert_eq!(event.previous.as_ref(), before);
    }
}

fn newcomer() -> Mutation {
    Mutation {
        key: Key::new("/registry/pods/ns/newcomer"),
        expect: Expect::Absent,
        change: Change::Put {
            value: Bytes::from_static(b"new"),
            lease: LeaseId(0),
        },
        origin: Origin::default(),
    }
}

async fn run_and_examine(seed: u64, wanted: usize) -> usize {
    let mut workload = Workload::begin(SimulatedDisk::new(seed), seed);
    let moments = photograph(&workload, seed, 14);
    while moments.lock().len() < wanted.min(IMAGES_PER_WORKLOAD) {
        workload.step().await;
    }
    workload.disk.stop_observing();
    workload.note_deletions().await;
    // Whatever an image may hold has been acknowledged by now.
    let written = workload.promises.lock().clone();
    workload.engine.close().await;
    let mut album = std::mem::take(&mut *moments.lock());
    let mut examined = 0;
    while let Some(moment) = album.pop() {
        let image = Arc::new(moment);
        let result = tokio::spawn({
            let (image, written) = (Arc::clone(&image), written.clone());
            async move { examine(&image, &written).await }
        });
        match result.await {
            Ok(more) => album.extend(more),
            Err(error) => {
                let directory = std::env::temp_dir().join(format!("taffrail-crash-{seed}"));
                image.image.save(&directory);
                panic!(
                    "seed {seed}, image {examined}, kept in {}: {error}",
                    directory.display()
                );
            }
        }
        examined += 1;
    }
    examined
}

/// Every acknowledged or fed event exists, no write is partial, revisions neither repeat nor go
/// back, and nothing visible is lost.
#[tokio::test]
async fn every_image_of_a_power_cut_opens_and_keeps_every_promise() {
    let seed = crate::seed();
    let wanted = crate::images(2500);
    let mut examined = 0;
    let mut workload = 0;
    while examined < wanted {
        examined += run_and_examine(seed.wrapping_add(workload), wanted - examined).await;
        workload += 1;
    }
    println!("{examined} images of {workload} workloads");
    assert!(examined >= wanted);
}

/// If the first start of a store is interrupted, the next start creates it. No promise was made
/// before, and an incomplete store is not refused.
#[tokio::test]
async fn a_first_start_that_is_cut_off_is_begun_again() {
    let seed = crate::seed();
    let disk = SimulatedDisk::new(seed);
    let album: Arc<Mutex<Vec<Image>>> = Arc::default();
    let images = Arc::clone(&album);
    let mut dice = Dice::new(seed);
    disk.observe(Box::new(move |world| {
        for _ in 0..8 {
            images.lock().push(world.power_cut(dice.next()));
        }
    }));
    let engine = open(&disk).unwrap();
    disk.stop_observing();
    // The store is there for good before anything is served.
    album.lock().push(disk.world().power_cut(seed));
    drop(engine);
    let album = std::mem::take(&mut *album.lock());
    assert!(album.len() > 50, "{} images", album.len());
    for (number, image) in album.iter().enumerate() {
        let disk = SimulatedDisk::from_image(image, seed);
        for expected in 1..3 {
            let engine = open(&disk).unwrap_or_else(|error| panic!("image {number}: {error}"));
            let mutation = Mutation {
                key: Key::new(format!("/registry/pods/ns/{expected}")),
                ..newcomer()
            };
            let outcome = engine.commit(mutation).await.unwrap();
            assert!(matches!(outcome, Outcome::Committed(event) if event.revision.0 == expected));
            engine.close().await;
        }
    }
}

/// The rebuilt log has its name, but the sync of the directory failed. Later acknowledged writes
/// must exist, whichever file a power failure leaves under the name.
#[tokio::test]
async fn a_change_of_files_whose_sync_failed_loses_nothing_that_comes_after_it() {
    let mut workload = Workload::begin(SimulatedDisk::new(1), 1);
    for _ in 0..10 {
        workload.single().await.unwrap();
    }
    workload.disk.world().faults.unsynced_promotion = true;
    workload.reclaim().await;
    assert!(
        !workload.disk.world().faults.unsynced_promotion,
        "not promoted"
    );
    serving(&workload).await;
    while !matches!(workload.single().await, Ok(Outcome::Committed(_))) {}
    let newest = workload.promises.lock().newest();
    workload.disk.cut_power();
    for fate in 0..2 {
        let image = workload.disk.world().power_cut(fate);
        let engine = open(&SimulatedDisk::from_image(&image, fate)).unwrap();
        let found = engine.known(&Prefix::new("/registry/")).revision;
        assert_eq!(found, newest, "fate {fate}");
    }
}
