//! Measures the constants of `docs/sizing.md`.
//!
//! This folder measures the constants on this machine, models a fleet and computes the page's
//! tables. The model does not know how constants are measured.

// The pure modules have tests, which tests/tidy runs, because a bench runs none.
#[allow(dead_code, unused_imports)]
mod constants;
#[allow(dead_code, unused_imports)]
mod model;
#[allow(dead_code, unused_imports)]
mod page;
mod runs;
#[allow(dead_code, unused_imports)]
mod solve;

use std::time::Duration;

use constants::Constants;
use solve::{shares, sizes};

use crate::fanout::Outcome;
use crate::load::STREAMS;

/// The objects of a fill, and the bytes that fill them.
const OBJECTS: u64 = 20_000;
const SMALL: usize = 800;
const LARGE: usize = 3872;
/// The watchers of a run.
const WATCHERS: usize = 5000;
/// The sample configuration, which has the defaults of all settings.
const SETTINGS: &str = include_str!("../../../config/taffrail.yaml");

/// Names the file of the page that is to be rewritten.
const VARIABLE: &str = "BENCH_WRITE";

/// Measures, and prints the block of constants and the tables that are computed from it.
pub async fn measure() {
    let measured = constants(Duration::from_secs(10)).await;
    let block = measured.block();
    // The tables are computed from the rounded numbers, as in the page's test.
    let read = Constants::parse(&block).unwrap();
    println!("\nThe constants of this machine, for docs/sizing.md:\n\n```toml\n{block}```\n");
    println!("{}", page::computed(&read));
    if let Some(path) = std::env::var_os(VARIABLE) {
        let written = std::fs::read_to_string(&path).unwrap();
        let written = page::rewritten(&written, &measured).unwrap();
        std::fs::write(&path, written).unwrap();
        println!("written into {}", path.display());
    }
}

async fn constants(time: Duration) -> Constants {
    let (empty, watches) = runs::empty().await;
    let small = runs::filled(OBJECTS, SMALL).await;
    let large = runs::filled(OBJECTS, LARGE).await;
    let updates = runs::updates(time).await;
    let (saturated, version) = runs::saturated(time).await;
    let many = runs::fan_out(WATCHERS, STREAMS, 4.0, time).await;
    let alone = runs::fan_out(WATCHERS, 1, 4.0, time).await;

    let object_memory = |filled: &runs::Filled| {
        let mib = filled.started.memory_mib - empty.memory_mib;
        (filled.object_bytes, mib * 1024.0 * 1024.0 / OBJECTS as f64)
    };
    let object = sizes(object_memory(&small), object_memory(&large));
    let listing = |filled: &runs::Filled| (filled.object_bytes / 1024.0, filled.listed_cpu_us);
    let listed = sizes(listing(&small), listing(&large));
    // The additional time of a start for each object.
    let filling = |filled: &runs::Filled| {
        let seconds = filled.started.seconds - empty.seconds;
        (filled.object_bytes / 1024.0, seconds * 1e6 / OBJECTS as f64)
    };
    let start = sizes(filling(&small), filling(&large));
    let each = |outcome: &Outcome| outcome.memory / WATCHERS as f64;
    let watch = shares(each(&many), each(&alone), STREAMS as f64);
    let delivery_of = |outcome: &Outcome| {
        let taken = outcome.updates as f64 * updates.taken_cpu_us;
        (outcome.used.daemon * 1e6 - taken) / outcome.delivered as f64
    };
    let delivery = shares(delivery_of(&many), delivery_of(&alone), STREAMS as f64);
    Constants {
        machine: machine(&version),
        daemon_memory_mib: empty.memory_mib,
        ring_memory_mib: ring_mib(),
        object_memory_bytes: object.shared,
        json_byte_memory_bytes: object.each,
        watch_memory_kib: watch.each,
        connection_memory_kib: watch.shared,
        // Both ends are on this machine.
        connection_kernel_memory_kib: (alone.kernel_memory / WATCHERS as f64 / 2.0).max(0.0),
        delivery_cpu_us: delivery.each,
        connection_woken_cpu_us: delivery.shared,
        watch_opened_cpu_us: alone.opening * 1e6 / WATCHERS as f64,
        object_listed_cpu_us: listed.shared,
        json_kib_listed_cpu_us: listed.each,
        object_filled_us: start.shared,
        json_kib_filled_us: start.each,
        update_taken_cpu_us: updates.taken_cpu_us,
        update_followed_cpu_us: updates.followed_cpu_us,
        etcd_update_cpu_us: updates.etcd_cpu_us,
        etcd_event_cpu_us: updates.event_cpu_us,
        etcd_writes_per_s: saturated.writes_per_s,
        etcd_revision_bytes: saturated.revision_bytes,
        etcd_watches_per_daemon: watches,
    }
}

/// Returns the most memory that the recent events of all resources take, in MiB.
fn ring_mib() -> f64 {
    let mut lines = SETTINGS.lines();
    let line = lines.find_map(|line| line.strip_prefix("watch-ring-total-bytes:"));
    let size = line.unwrap().trim().strip_suffix("MiB");
    size.unwrap().parse().unwrap()
}

/// Describes this machine.
fn machine(etcd: &str) -> String {
    let cores = std::thread::available_parallelism().unwrap();
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |name| {
        name.trim_start_matches([' ', '\t', ':'])
    });
    format!("{cores} cores of {model}, shared by the daemons, etcd {etcd} and the load")
}
