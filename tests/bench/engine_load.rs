//! Measures the embedded engine alone: `cargo bench --bench engine_load -- SCENARIO DIR`.
//!
//! - `updates`: 64 committers update 1,000 keys with 1 KiB values for 20 s while retention (10 s)
//!   removes history as fast as they write; then the store idles and frees space.
//! - `reclaim`: the same load with 2 s of retention while the engine frees space every other
//!   second. It measures how long writes wait for that.
//! - `creates`: 64 committers create 100,000 keys of 1 KiB, which are then read as a cache would.
//! - `open`: opens the directory and prints how long that and reading everything took.
//!
//! The figures are those of this process: rate, CPU per event, latency, blocks of the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, Expect, MaintenanceEngine, Outcome, Prefix, RangeRequest, Retention,
    Revision,
};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

const SCENARIOS: [&str; 4] = ["updates", "reclaim", "creates", "open"];
const COMMITTERS: u64 = 64;

mod engine_meter;

use engine_meter::{Meter, blocks, cpu_seconds, put, resident_mib};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    // Cargo adds other flags.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let scenario = arguments.next().unwrap_or_default();
    let Some(directory) = arguments.next().map(PathBuf::from) else {
        // `cargo bench` passes the same arguments to all benches.
        return Ok(());
    };
    if !SCENARIOS.contains(&scenario.as_str()) {
        return Ok(());
    }
    let number = arguments.next().map(|text| text.parse()).transpose()?;
    let started = Instant::now();
    let engine = EmbeddedEngine::open(EmbeddedOptions::new(&directory))?;
    println!("opened in {:.1?}, {:?}", started.elapsed(), engine.stats());
    match scenario.as_str() {
        "updates" => updates(engine, &directory, number.unwrap_or(20)).await,
        "reclaim" => reclaim(engine, &directory, number.unwrap_or(20)).await,
        "creates" => creates(engine, number.unwrap_or(100_000)).await,
        // "open"
        _ => load(&*engine).await,
    }
}

async fn updates(
    engine: Arc<EmbeddedEngine>,
    directory: &Path,
    seconds: u64,
) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let most = Arc::new(AtomicU64::new(0));
    let retention = Retention {
        age: Duration::from_secs(10),
        bytes: 1 << 30,
    };
    let keeper = {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        tokio::spawn(async move { keep(&*engine, retention, &stop).await })
    };
    let watcher = {
        let (stop, most, directory) = (Arc::clone(&stop), Arc::clone(&most), directory.to_owned());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(blocks(&directory), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    };
    let meter = Meter::start();
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move { update(&*engine, committer, seconds).await })
        })
        .collect();
    let (mut events, mut waits) = (0, Vec::new());
    for committer in committers {
        let own = committer.await??;
        events += own.len() as u64;
        waits.extend(own);
    }
    meter.report(events, waits);
    println!(
        "blocks at most {} MiB, now {} MiB, {:?}, {} MiB resident",
        most.load(Ordering::Relaxed) >> 20,
        blocks(directory) >> 20,
        engine.stats(),
        resident_mib()
    );
    tokio::time::sleep(Duration::from_secs(12)).await;
    stop.store(true, Ordering::Relaxed);
    keeper.await??;
    watcher.await?;
    println!(
        "retention has passed: {} KiB, {:?}",
        blocks(directory) >> 10,
        engine.stats()
    );
    let started = Instant::now();
    let (mut steps, mut longest) = (0, Duration::ZERO);
    loop {
        let begun = Instant::now();
        let step = engine.maintain(true).await?;
        longest = longest.max(begun.elapsed());
        steps += 1;
        if !step.more {
            break;
        }
    }
    println!(
        "freed space in {:.1?}, {steps} steps, the longest {longest:.1?}: {} KiB",
        started.elapsed(),
        blocks(directory) >> 10
    );
    engine.close().await;
    println!("closed: {} KiB", blocks(directory) >> 10);
    Ok(())
}

async fn reclaim(
    engine: Arc<EmbeddedEngine>,
    directory: &Path,
    seconds: u64,
) -> Result<(), Failure> {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    let stop = Arc::new(AtomicBool::new(false));
    let retention = Retention {
        age: Duration::from_secs(2),
        bytes: 1 << 30,
    };
    let keeper = {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        let directory = directory.to_owned();
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let horizon = engine.horizon(retention, SystemTime::now()).await?;
                engine.compact(horizon).await?;
                while engine.maintain(false).await?.more {}
                let (before, begun, mut steps) = (blocks(&directory), Instant::now(), 1);
                while engine.maintain(true).await?.more && !stop.load(Ordering::Relaxed) {
                    steps += 1;
                }
                println!(
                    "{} KiB are {} KiB after {steps} steps in {:.1?}",
                    before >> 10,
                    blocks(&directory) >> 10,
                    begun.elapsed()
                );
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Ok::<_, Failure>(())
        })
    };
    let meter = Meter::start();
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move { update(&*engine, committer, seconds).await })
        })
        .collect();
    let mut waits = Vec::new();
    for committer in committers {
        waits.extend(committer.await??);
    }
    stop.store(true, Ordering::Relaxed);
    meter.report(waits.len() as u64, waits);
    keeper.await??;
    let of_interest = [
        "file_switch_duration",
        "commit_duration",
        "removal_duration",
    ];
    for line in recorder.render().lines() {
        let told = of_interest.iter().any(|name| line.contains(name));
        if told && !line.starts_with('#') {
            println!("{line}");
        }
    }
    engine.close().await;
    Ok(())
}

async fn keep(engine: &dyn Engine, retention: Retention, stop: &AtomicBool) -> Result<(), Failure> {
    let (mut removed, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let horizon = engine.horizon(retention, SystemTime::now()).await?;
        engine.compact(horizon).await?;
        loop {
            let begun = Instant::now();
            let step = engine.maintain(false).await?;
            longest = longest.max(begun.elapsed());
            removed += step.removed;
            if !step.more {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("removed {removed} records, the longest step {longest:.1?}");
    Ok(())
}

async fn update(
    engine: &dyn Engine,
    committer: u64,
    seconds: u64,
) -> Result<Vec<Duration>, Failure> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let keys: Vec<String> = (committer..1000)
        .step_by(COMMITTERS as usize)
        .map(|key| format!("/registry/configmaps/default/config-{key:04}"))
        .collect();
    let mut last = vec![Revision::ZERO; keys.len()];
    let (mut waits, mut count) = (Vec::new(), committer);
    while Instant::now() < deadline {
        // In random order, as real writers do.
        count = count
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let at = (count >> 33) as usize % keys.len();
        let expect = match last[at] {
            Revision::ZERO => Expect::Absent,
            revision => Expect::Unchanged(revision),
        };
        let begun = Instant::now();
        match engine.commit(put(keys[at].clone(), expect, count)).await? {
            Outcome::Committed(event) => last[at] = event.revision,
            Outcome::Refused { current, .. } => {
                last[at] = current.map_or(Revision::ZERO, |item| item.revision);
            }
        }
        waits.push(begun.elapsed());
    }
    Ok(waits)
}

async fn creates(engine: Arc<EmbeddedEngine>, objects: u64) -> Result<(), Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let meter = Meter::start();
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|_| {
            let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= objects {
                        return Ok::<_, Failure>(waits);
                    }
                    let name = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let key = format!("/registry/configmaps/ns-{}/config-{name:016x}", number % 50);
                    let begun = Instant::now();
                    engine.commit(put(key, Expect::Absent, number)).await?;
                    waits.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut waits = Vec::new();
    for committer in committers {
        waits.extend(committer.await??);
    }
    meter.report(objects, waits);
    println!("{} MiB resident", resident_mib());
    load(&*engine).await
}

async fn load(engine: &dyn Engine) -> Result<(), Failure> {
    let meter = Meter::start();
    let mut request = RangeRequest {
        prefix: Prefix::new("/registry/configmaps/"),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let (mut items, mut chunks) = (0, 0);
    loop {
        let part = engine.range(request.clone()).await?;
        items += part.items.len();
        chunks += 1;
        request.at = At::Revision(part.revision);
        request.start = part
            .items
            .last()
            .map(|item| [item.key.as_bytes(), b"\0"].concat());
        if !part.more {
            break;
        }
    }
    let (wall, cpu) = (meter.started.elapsed(), cpu_seconds() - meter.cpu);
    println!("read {items} objects in {chunks} chunks: {wall:.1?}, {cpu:.2} s CPU");
    Ok(())
}
