//! Measures retention: the disk space of a store that compacts as fast as it is written, its space
//! after all was compacted, and how long writers wait for defragmentation.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use actors::engine::{
    Change, DataEngine, Engine, Expect, Key, LeaseId, MaintenanceEngine, Mutation, Origin, Outcome,
    Prepared, Retention, Revision,
};
use bytes::Bytes;
use futures_util::future::join_all;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

const MIB: u64 = 1024 * 1024;
const UPDATES: u64 = 200_000;
const KEYS: u64 = 1000;
const VALUE_BYTES: usize = 1024;
const COMMITTERS: u64 = 50;
/// The most updates a second. From some 18,000 on, ten seconds of retention need the whole limit.
const PACE: f64 = 14_000.0;
/// The longest that writers may wait for a step, in seconds, on a busy machine. It is 0.1 on a
/// quiet one; the benchmark of the engine's load measures that.
const STALL_MAX: f64 = 1.0;
/// The longest that a committer may wait, on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(5);

fn allocated(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    // A file may be removed meanwhile.
    let metadata = entries.filter_map(|entry| entry.metadata().ok());
    metadata.map(|metadata| metadata.blocks() * 512).sum()
}

fn put(number: u64, key: u64, expect: Expect) -> Mutation {
    let mut value = number.to_string().into_bytes();
    value.resize(VALUE_BYTES, b'v');
    Mutation {
        key: Key::new(format!("/registry/configmaps/default/key-{key:03}")),
        expect,
        change: Change::Put {
            value: Bytes::from(value),
            lease: LeaseId(0),
        },
        origin: Origin {
            user: "admin".into(),
            manager: "kubectl".into(),
            audit_id: "9e107d9d-3721-4d2c-8a1b-1c2d3e4f5a6b".into(),
        },
        prepared: Prepared::default(),
    }
}

/// When a load ends.
struct Stop {
    begun: Instant,
    after: u64,
    now: Arc<AtomicBool>,
}

/// Updates this committer's own keys in turn until the load ends. Answers how long each update
/// waited.
async fn update(engine: &EmbeddedEngine, own: u64, done: &AtomicU64, stop: &Stop) -> Vec<Duration> {
    let mut waits = Vec::new();
    let keys: Vec<u64> = (own..KEYS).step_by(COMMITTERS as usize).collect();
    let mut last = vec![Revision::ZERO; keys.len()];
    for turn in 0.. {
        let number = done.fetch_add(1, Ordering::SeqCst);
        if number >= stop.after || stop.now.load(Ordering::Relaxed) {
            break;
        }
        let due = stop.begun + Duration::from_secs_f64(number as f64 / PACE);
        tokio::time::sleep_until(due.into()).await;
        let at = turn % keys.len();
        let expect = match last[at] {
            Revision::ZERO => Expect::Absent,
            revision => Expect::Unchanged(revision),
        };
        let asked = Instant::now();
        let outcome = engine.commit(put(number, keys[at], expect)).await.unwrap();
        waits.push(asked.elapsed());
        match outcome {
            Outcome::Committed(event) => last[at] = event.revision,
            // The key is older than this load.
            Outcome::Refused { current, .. } => {
                last[at] = current.map_or(Revision::ZERO, |item| item.revision);
            }
        }
    }
    waits
}

/// Prints how long committers waited: nearly all of them, and the slowest.
async fn load(
    engine: &Arc<EmbeddedEngine>,
    updates: u64,
    stop: &Arc<AtomicBool>,
) -> (Duration, Duration) {
    let stop = Arc::new(Stop {
        begun: Instant::now(),
        after: updates,
        now: Arc::clone(stop),
    });
    let done = Arc::new(AtomicU64::new(0));
    let committers = (0..COMMITTERS).map(|own| {
        let (engine, done, stop) = (Arc::clone(engine), Arc::clone(&done), Arc::clone(&stop));
        tokio::spawn(async move { update(&engine, own, &done, &stop).await })
    });
    let mut waits = Vec::new();
    for waited in join_all(committers).await {
        waits.extend(waited.unwrap());
    }
    waits.sort_unstable();
    (waits[waits.len() * 99 / 100], waits[waits.len() - 1])
}

/// One round of the compactor.
async fn forget(engine: &EmbeddedEngine, retention: Retention, reclaim: bool) {
    let horizon = engine.horizon(retention, SystemTime::now()).await.unwrap();
    engine.compact(horizon).await.unwrap();
    while engine.maintain(false).await.unwrap().more {}
    while reclaim && engine.maintain(true).await.unwrap().more {}
}

/// The value of one of the engine's metrics.
fn measured(rendered: &str, line: &str) -> f64 {
    let found = rendered.lines().find_map(|other| other.strip_prefix(line));
    found.map_or(0.0, |number| number.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_forgotten_history_is_bounded_and_given_back_without_stalls() {
    let _alone = crate::PROCESSORS.write().await;
    let retention = Retention {
        age: Duration::from_secs(10),
        bytes: 1 << 30,
    };
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new();
    let recorder = recorder.install_recorder().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(EmbeddedOptions::new(directory.path())).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let keeper = tokio::spawn({
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::Relaxed) {
                forget(&engine, retention, false).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    let sampler = tokio::spawn({
        let (path, stop) = (directory.path().to_owned(), Arc::clone(&stop));
        async move {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                most = most.max(allocated(&path));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            most
        }
    });
    let begun = Instant::now();
    let (usual, worst) = load(&engine, UPDATES, &Arc::default()).await;
    println!(
        "{UPDATES} updates in {:.1?}, 99 of 100 waited {usual:.1?} at most, one {worst:.1?}",
        begun.elapsed()
    );
    tokio::time::sleep(retention.age + Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    keeper.await.unwrap();
    let most = sampler.await.unwrap();
    println!("at most {} MiB", most / MIB);
    // The files of the journal are part of that.
    assert!(most <= (256 + 16) * MIB, "{} MiB", most / MIB);

    // Under load, everything that can be given back must be.
    let full = allocated(directory.path());
    let stop = Arc::new(AtomicBool::new(false));
    let writers = tokio::spawn({
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        async move { load(&engine, u64::MAX, &stop).await }
    });
    for _ in 0..3 {
        forget(&engine, retention, true).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let (usual, worst) = writers.await.unwrap();
    println!("beside it 99 of 100 committers waited {usual:.1?} at most, one {worst:.1?}");
    assert!(worst <= WAIT_MAX, "a committer waited for {worst:?}");
    let rendered = recorder.render();
    let name = "taffrail_storage_file_switch_duration_seconds";
    let switches = measured(&rendered, &format!("{name}_count "));
    let stall = measured(&rendered, &format!("{name}{{quantile=\"1\"}} "));
    println!("{switches} switches, the longest {:.1} ms", stall * 1000.0);
    assert!(
        switches >= 1.0,
        "nothing of {} MiB was given back",
        full / MIB
    );
    assert!(stall <= STALL_MAX, "writers waited for {stall} s");

    // Another round, for what was written meanwhile.
    let retention = Retention {
        age: Duration::ZERO,
        ..retention
    };
    forget(&engine, retention, true).await;
    let (after, live) = (allocated(directory.path()), KEYS * VALUE_BYTES as u64);
    println!("{} KiB are {} KiB", full / 1024, after / 1024);
    assert_eq!(engine.stats().live_keys, KEYS);
    assert!(after <= 3 * live + 16 * MIB, "{} MiB", after / MIB);
    engine.close().await;
}

/// The names of files that contain a text.
fn holding(directory: &Path, text: &[u8]) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let holds = |entry: &std::fs::DirEntry| {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        content.windows(text.len()).any(|window| window == text)
    };
    let found = entries.filter(holds);
    found
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

async fn purge(engine: &EmbeddedEngine) -> Result<(), actors::engine::EngineError> {
    while engine.purge().await?.more {}
    Ok(())
}

#[tokio::test]
async fn what_is_purged_is_in_no_file_however_little_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let options = || EmbeddedOptions::new(directory.path());
    let engine = EmbeddedEngine::open(options()).unwrap();
    let write = async |text: &str, expect| {
        let mut mutation = put(0, 0, expect);
        let value = Bytes::copy_from_slice(text.as_bytes());
        let lease = LeaseId(0);
        mutation.change = Change::Put { value, lease };
        match engine.commit(mutation).await.unwrap() {
            Outcome::Committed(event) => event.revision,
            refused => panic!("{refused:?}"),
        }
    };
    let first = write("the old secret", Expect::Absent).await;
    let second = write("the new secret", Expect::Unchanged(first)).await;
    purge(&engine).await.unwrap();
    assert!(
        !holding(directory.path(), b"the old secret").is_empty(),
        "it was history still"
    );
    engine.compact(second).await.unwrap();
    // The space alone would not justify a copy.
    while engine.maintain(true).await.unwrap().more {}
    purge(&engine).await.unwrap();
    assert_eq!(
        holding(directory.path(), b"the old secret"),
        Vec::<String>::new()
    );
    assert!(!holding(directory.path(), b"the new secret").is_empty());
    let third = write("the newest secret", Expect::Unchanged(second)).await;
    engine.close().await;

    let engine = EmbeddedEngine::open(options()).unwrap();
    let key = put(0, 0, Expect::Absent).key;
    let found = engine
        .get(key, actors::engine::At::Latest)
        .await
        .unwrap()
        .item
        .unwrap();
    assert_eq!(
        (found.revision, found.value.as_ref()),
        (third, b"the newest secret".as_slice())
    );
    engine.close().await;
}

#[tokio::test]
async fn a_purge_without_room_for_a_copy_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(EmbeddedOptions {
        reserve_bytes: u64::MAX,
        ..EmbeddedOptions::new(directory.path())
    });
    let engine = engine.unwrap();
    let refused = purge(&engine).await.unwrap_err();
    assert!(
        matches!(refused, actors::engine::EngineError::OutOfSpace(_)),
        "{refused:?}"
    );
    engine.close().await;
}
